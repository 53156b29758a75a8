"""After a response: sample again, or finish. The whole rule of a turn's length, as one function.

Rule guarded: a response that only thinks or only comments does not end a turn (users find it dead
half-way); but no model is asked more than `MAX_NUDGES` times in a row to go on.
"""

from swarm.mailbox.protocol.base import Value

MAX_NUDGES = 3


class ResponseSummary(Value):
    """What one response amounted to."""

    called_tools: bool = False  # any call, also one that was refused before it ran
    cut_for_mail: bool = False  # we ended it early so that mail is read now
    answer: str | None = None  # last visible text that is not commentary
    remark: str | None = None  # last visible text of any phase
    end_turn: bool | None = None  # the server's own opinion
    truncated: bool = False  # the model was stopped at an output limit, in the middle of text


class SampleAgain(Value):
    """Ask the model again; `nudge` if nothing but its own silence calls for it."""

    nudge: bool = False


class FinishTurn(Value):
    """The turn is over; `last_message` is its result."""

    last_message: str | None = None


NextStep = SampleAgain | FinishTurn


def next_step(heard: ResponseSummary, *, pending_input: bool, nudges: int) -> NextStep:
    """Decide what follows a response.

    Args:
        heard: The response.
        pending_input: Steered words, or mail that may join this turn, wait.
        nudges: How often in a row the model was already asked to go on.

    Source: Codex `run_turn`; differs in that commentary-only and reasoning-only responses are
    followed up, and that the server's `end_turn` is honoured.
    """
    if heard.called_tools or heard.cut_for_mail or pending_input:
        return SampleAgain()
    unfinished = heard.end_turn is False or (heard.answer is None and heard.end_turn is None)
    if unfinished and not heard.truncated and nudges < MAX_NUDGES:
        return SampleAgain(nudge=True)
    return FinishTurn(last_message=heard.answer if heard.answer is not None else heard.remark)
