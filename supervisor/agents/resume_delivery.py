"""What a new life is given of the one before: its letters, its words, the wish to go on.

Rule guarded: a turn that a death cut off goes on once, with all that waited for it, and under the
schema that it had. A letter that came a moment later would begin a turn of its own beside it, and
the same work would be answered twice.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.ops import Deliver, Mail, UserInput
from swarm.mailbox.protocol.records import InputPosted

from ..run_context import RunContext
from .live_agent import LiveAgent

InputSource = Literal["task", "person", "fan_out"]  # of records.InputPosted


def input_record(words: UserInput, source: InputSource) -> InputPosted:
    """The record of words, whole."""
    return InputPosted(
        input_id=words.input_id,
        parts=words.parts,
        source=source,
        output_schema=words.output_schema,
    )


def with_turn_schema(
    inputs: Sequence[InputPosted], schema: bytes | None
) -> tuple[InputPosted, ...]:
    """Inputs that joined an open turn: the first now begins one, under the schema that it had."""
    first = [replace(one, output_schema=one.output_schema or schema) for one in inputs[:1]]
    return (*first, *inputs[1:])


async def deliver_unread_mail(
    running: RunContext,
    agent: LiveAgent,
    is_written: Callable[[Mail], bool],
    *,
    joining: bool = False,
) -> None:
    """Hand over what the journal has of its unread letters; the others come as they are written.

    Args:
        joining: Something else will begin the turn that they join: they begin none. An agent drops
            those that it gets a second time.
    """
    for mail in tuple(agent.unread_mail.values()):
        if not is_written(mail):
            continue
        letter = replace(mail, trigger_turn=False) if joining else mail
        try:
            await running.send(agent, Deliver(mail=letter))
        except PeerGone:
            return  # they are handed to its next life
