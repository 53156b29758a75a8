"""What hooks decide about a turn: whether it begins, what its model reads, whether it ends."""

from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.sampling import SampleFailed

from ..context import context_blocks
from ..state.agent_state import AgentState
from ..turn.turn_state import Turn


async def begin_by_hooks(state: AgentState, turn: Turn) -> SampleFailed | None:
    """Ask the hooks about the session and the input that began the turn.

    Returns why there is nothing to do for the model; None: the turn goes on.
    """
    refused = await state.hooks.begin(turn.turn_id)
    if refused is not None:
        return _refusal(f"a hook ended the session: {refused}")
    withheld = await check_inputs(state, turn)
    if withheld is not None and turn.started_by == "user" and not state.inbox.pending:
        return _refusal(f"a hook blocked the prompt: {withheld}")
    return None


async def check_inputs(state: AgentState, turn: Turn) -> str | None:
    """Show pending input to the hooks; the model gets a note in place of what they refuse.

    Returns the last refusal.
    """
    last: str | None = None
    while (given := state.inbox.next_unchecked_input()) is not None:
        refused = await state.hooks.on_prompt(_text(given), turn.turn_id)
        if refused is None:
            continue
        last = refused
        state.inbox.remove_input(given)
        state.inbox.take_check(given)
        note = context_blocks.withheld_message(refused)
        state.record(turn.turn_id, note, source="note", item_id=given.input_id)
    return last


async def goes_on_by_hooks(state: AgentState, turn: Turn, answer: str | None) -> bool:
    """Ask the Stop hooks about a turn that could end. True: it has something to read, and goes on.

    Input that came meanwhile is read by this turn, too.
    """
    said = await state.hooks.on_stop(answer, turn.turn_id, continued=turn.continuations)
    if not said.prompts:
        return said.asked and state.inbox.pending
    turn.continuations += 1
    for prompt in said.prompts:
        state.record(turn.turn_id, text_message("user", prompt), source="note")
    return True


def _text(given: UserInput) -> str:
    return "\n".join(part.text for part in given.parts if isinstance(part, TextInput))


def _refusal(message: str) -> SampleFailed:
    return SampleFailed(request_id=0, kind="hook", message=message)
