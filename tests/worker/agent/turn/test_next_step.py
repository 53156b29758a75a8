"""What follows a response, as a table."""

import pytest

from swarm.mailbox.protocol.sampling import SampleFailed
from swarm.worker.agent.state.sampler import plan_retry
from swarm.worker.agent.turn.next_step import (
    MAX_NUDGES,
    FinishTurn,
    ResponseSummary,
    SampleAgain,
    next_step,
)

ANSWER = ResponseSummary(answer="done", remark="done")
COMMENT = ResponseSummary(remark="I will look")
SILENT = ResponseSummary()  # reasoning only, or nothing at all
AGAIN, NUDGED = SampleAgain(), SampleAgain(nudge=True)


@pytest.mark.parametrize(
    ("heard", "pending", "nudges", "step"),
    [
        (ANSWER, False, 0, FinishTurn(last_message="done")),
        (ANSWER, True, 0, AGAIN),
        (ResponseSummary(answer="done", remark="done", called_tools=True), False, 0, AGAIN),
        (ResponseSummary(called_tools=True, end_turn=True), False, MAX_NUDGES, AGAIN),
        (ResponseSummary(cut_for_mail=True), False, MAX_NUDGES, AGAIN),
        (COMMENT, False, 0, NUDGED),
        (COMMENT, False, MAX_NUDGES - 1, NUDGED),
        (COMMENT, False, MAX_NUDGES, FinishTurn(last_message="I will look")),
        (COMMENT, True, MAX_NUDGES, AGAIN),
        (SILENT, False, 0, NUDGED),
        (SILENT, False, MAX_NUDGES, FinishTurn()),
        (ResponseSummary(remark="ok", end_turn=True), False, 0, FinishTurn(last_message="ok")),
        (ResponseSummary(answer="part", remark="part", end_turn=False), False, 0, NUDGED),
        (
            ResponseSummary(answer="part", end_turn=False),
            False,
            MAX_NUDGES,
            FinishTurn(last_message="part"),
        ),
        (ResponseSummary(answer="", end_turn=True), False, 0, NUDGED),
        (
            ResponseSummary(answer=" ", end_turn=True),
            False,
            MAX_NUDGES,
            FinishTurn(last_message=" "),
        ),
        (ResponseSummary(truncated=True), False, 0, FinishTurn()),
        (
            ResponseSummary(remark="cut off", truncated=True),
            False,
            0,
            FinishTurn(last_message="cut off"),
        ),
        (
            ResponseSummary(answer="first", remark="then a note"),
            False,
            0,
            FinishTurn(last_message="first"),
        ),
    ],
)
def test_only_calls_input_mail_and_silence_make_a_turn_longer(heard, pending, nudges, step):
    assert next_step(heard, pending_input=pending, nudges=nudges) == step


def failed(**kwargs):
    return SampleFailed(request_id=1, kind="other", message="m", **kwargs)


@pytest.mark.parametrize(
    ("failure", "attempt", "noise", "delay"),
    [
        (failed(), 1, 0.5, None),
        (failed(retryable=True), 1, 0.5, 0.2),
        (failed(retryable=True), 1, 0.0, 0.18),
        (failed(retryable=True), 5, 0.5, 3.2),
        (failed(retryable=True), 6, 0.5, None),
        (failed(retryable=True, retry_after_s=1.5), 5, 0.9, 1.5),
        (failed(retryable=True, retry_after_s=-1.0), 1, 0.9, 0.0),
        (failed(retry_after_s=1.0), 1, 0.0, None),
    ],
)
def test_a_stream_is_asked_again_five_times_at_most_and_the_server_names_the_delay(
    failure, attempt, noise, delay
):
    planned = plan_retry(failure, attempt=attempt, most=5, noise=noise)
    assert planned == (None if delay is None else pytest.approx(delay))
