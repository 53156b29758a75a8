"""What follows a response: sample again or finish the turn.

A response with only reasoning or commentary does not end a turn, because users would take it as
stopped half-way; the model is asked to go on at most `MAX_NUDGES` times in a row. Pure.
"""

from swarm.mailbox.protocol.values.base import Value

MAX_NUDGES = 3


class ResponseSummary(Value):
    """Summary of one response."""

    called_tools: bool = False  # any call, also one that was refused before it ran
    cut_for_mail: bool = False  # the agent ended it early so that mail is read now
    answer: str | None = None  # last visible text that is not commentary
    remark: str | None = None  # last visible text of any phase
    end_turn: bool | None = None  # the server's own flag
    truncated: bool = False  # the model was stopped at an output limit, in the middle of text


class SampleAgain(Value):
    """Sample again; `nudge` if only the unfinished response is the reason."""

    nudge: bool = False


class FinishTurn(Value):
    """The turn is over; `last_message` is its result."""

    last_message: str | None = None


NextStep = SampleAgain | FinishTurn


def next_step(response: ResponseSummary, *, pending_input: bool, nudges: int) -> NextStep:
    """Decide what follows a response.

    Args:
        response: The response.
        pending_input: Input, or mail that may join this turn, is pending.
        nudges: How often in a row the model was already asked to go on.

    Source: Codex `run_turn`; differs in that commentary-only, reasoning-only and empty responses
    are followed up, and that the server's `end_turn` is honoured where there is an answer.
    """
    if response.called_tools or response.cut_for_mail or pending_input:
        return SampleAgain()
    unfinished = response.end_turn is False or (
        response.answer is None and response.end_turn is None
    )
    unfinished = unfinished or not (response.answer or response.remark or "").strip()
    if unfinished and not response.truncated and nudges < MAX_NUDGES:
        return SampleAgain(nudge=True)
    return FinishTurn(
        last_message=response.answer if response.answer is not None else response.remark
    )
