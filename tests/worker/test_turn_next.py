"""What follows a response, as a table."""

import pytest

from swarm.mailbox.protocol.sampling import SampleFailed
from swarm.worker.turn.next import MOST_NUDGES, Finish, Heard, Sample, next_step
from swarm.worker.turn.retry import plan_retry

ANSWER = Heard(answer="done", remark="done")
COMMENT = Heard(remark="I will look")
SILENT = Heard()  # reasoning only, or nothing at all
AGAIN, NUDGED = Sample(), Sample(nudge=True)


@pytest.mark.parametrize(
    ("heard", "pending", "nudges", "step"),
    [
        (ANSWER, False, 0, Finish(last_message="done")),
        (ANSWER, True, 0, AGAIN),
        (Heard(answer="done", remark="done", called_tools=True), False, 0, AGAIN),
        (Heard(called_tools=True, end_turn=True), False, MOST_NUDGES, AGAIN),
        (Heard(cut_for_mail=True), False, MOST_NUDGES, AGAIN),
        (COMMENT, False, 0, NUDGED),
        (COMMENT, False, MOST_NUDGES - 1, NUDGED),
        (COMMENT, False, MOST_NUDGES, Finish(last_message="I will look")),
        (COMMENT, True, MOST_NUDGES, AGAIN),
        (SILENT, False, 0, NUDGED),
        (SILENT, False, MOST_NUDGES, Finish()),
        (Heard(remark="ok", end_turn=True), False, 0, Finish(last_message="ok")),
        (Heard(answer="part", remark="part", end_turn=False), False, 0, NUDGED),
        (Heard(answer="part", end_turn=False), False, MOST_NUDGES, Finish(last_message="part")),
        (Heard(answer="", end_turn=True), False, 0, Finish(last_message="")),
        (Heard(remark="cut off", truncated=True), False, 0, Finish(last_message="cut off")),
        (Heard(answer="first", remark="then a note"), False, 0, Finish(last_message="first")),
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
