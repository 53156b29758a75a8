"""Inputs that agents continue with: after the death of a process, and after a resume of the run.

A turn that a death cut off continues once, with everything that waited for it and under the same
schema. After a resume those agents work again that had later input, or were cut off by the run's
end. The run's own records only tell of an agent's end. What came after it (another turn of the same
process, an input to an agent without one) is in the agent's own file, behind that end.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.events import TurnStarted
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.ops import UserInput
from swarm.mailbox.protocol.records import InputPosted, ItemRecorded

from ...context.run_context import RunContext
from ...journal.journal_reader import read_records, records_after
from ...journal.replay import AgentPast, fold_agent
from ...runs.paths import RunPaths
from ..end_states import continue_note

InputSource = Literal["task", "person", "fan_out"]  # of records.InputPosted


def input_record(message: UserInput, source: InputSource) -> InputPosted:
    """The record of an input."""
    return InputPosted(
        input_id=message.input_id,
        parts=message.parts,
        source=source,
        output_schema=message.output_schema,
    )


def with_turn_schema(
    inputs: Sequence[InputPosted], schema: bytes | None
) -> tuple[InputPosted, ...]:
    """Inputs that joined an open turn: the first now starts a turn, under that turn's schema."""
    first = [replace(one, output_schema=one.output_schema or schema) for one in inputs[:1]]
    return (*first, *inputs[1:])


def has_work_after_end(places: RunPaths, agent: AgentPast) -> bool:
    """True if a turn started after its end, or an input or waking mail was not read.

    Reads only the end of its file, unless something follows the agent's end there.
    """
    file = agent.spawned.agent_id
    if agent.ended is None:
        return False
    behind = records_after(places, file, agent.ended_seq)
    if any(isinstance(one.body, TurnStarted) for one in behind):
        return True
    if all(isinstance(one.body, TurnDiff) for one in behind):
        return False  # the diff of its last turn is written after its work has ended
    memory = fold_agent(read_records(places, file=file))
    return bool(memory.inputs) or any(mail.trigger_turn for mail in memory.mails.values())


def continue_cut_off(running: RunContext, agent: AgentPast) -> None:
    """Journal what makes an agent continue that the run's end cut off; does so once.

    A turn that is still open needs nothing: its process died before the run ended, and the next one
    continues it. A note behind its open calls would keep their outputs out of the journal.
    """
    if agent.ended is None or has_work_after_end(running.paths, agent):
        return
    path, file = agent.spawned.path, agent.spawned.agent_id
    if fold_agent(read_records(running.paths, file=file)).open_turn is None:
        journal_continuation(running, (path, file), continue_note(agent.ended.state))


def journal_continuation(
    running: RunContext, who: tuple[str, str], note: str, *, schema: bytes | None = None
) -> tuple[ItemRecorded | None, InputPosted]:
    """Journal the note to the model, if there is one, and the "continue" input.

    Args:
        who: The agent's path and id.
        note: What its model is told first.
        schema: The JSON schema of its answer; None: the same as before.
    """
    path, file = who
    new_id, noted = running.entropy.new_id, None
    if note:
        item = text_message("developer", note)
        noted = ItemRecorded(turn_id="", item=item, item_id=new_id(), source="note")
        running.note(noted, agent=path, file=file)
    posted = InputPosted(input_id=new_id(), parts=(), output_schema=schema)
    running.note(posted, agent=path, file=file)
    return noted, posted
