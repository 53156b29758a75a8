"""The turn that answers an input is found, and its end, whatever happens to the agent meanwhile."""

import pytest

from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed, TurnStarted
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AnyRecordBody,
    InputPosted,
    ItemRecorded,
    Record,
    RunCompleted,
    RunIdle,
)
from swarm.supervisor.clients.client.turn_tracking import TurnResult, TurnTracker
from swarm.worker.testing.agent_harness import FAKE_MODEL


def posted(input_id: str = "i", source: str = "person") -> InputPosted:
    return InputPosted(input_id=input_id, parts=(TextInput(text="words"),), source=source)


def started(turn_id: str, by: str = "user") -> TurnStarted:
    return TurnStarted(turn_id=turn_id, model=FAKE_MODEL, started_by=by)


def read(turn_id: str, input_id: str = "i", source: str = "user") -> ItemRecorded:
    item = text_message("user", "words")
    return ItemRecorded(turn_id=turn_id, item=item, item_id=input_id, source=source)


def ended(state: str, message: str = "") -> AgentEnded:
    return AgentEnded(agent_id="a", state=state, message=message)


def follow(*bodies: AnyRecordBody, input_id: str = "i", agent: str = "/root") -> TurnResult | None:
    tracker = TurnTracker(input_id)
    for seq, body in enumerate(bodies, start=1):
        of_run = isinstance(body, RunIdle | RunCompleted)
        record = Record(seq=seq, ts=1.0, body=body, agent="" if of_run else agent)
        tracker.apply(Recorded(record=record))
    return tracker.turn


BEGUN = (posted(), started("i"), read("i"))
DONE = TurnCompleted(turn_id="i", last_message="answer")


def test_the_turn_that_an_input_begins_or_joins_answers_it():
    assert follow(*BEGUN, DONE) == TurnResult(status="completed", text="answer", turn_id="i")
    joined = (posted("task", "task"), started("task"), posted(), read("task"))
    earlier = TurnCompleted(turn_id="task", last_message="both")
    assert follow(*joined, earlier).text == "both"


def test_without_an_id_the_task_of_the_root_is_followed():
    done = TurnCompleted(turn_id="task", last_message="answer")
    bodies = (posted("other"), posted("task", "task"), started("task"), read("task", "task"), done)
    assert follow(*bodies, input_id="").text == "answer"


def test_another_turn_that_ends_first_says_nothing():
    other = TurnFailed(turn_id="other", kind="network", message="lost")
    assert follow(posted(), other, ended("failed", "lost")) is None
    assert follow(posted(), other, ended("failed", "lost"), *BEGUN[1:], DONE).text == "answer"


def test_a_turn_that_another_process_continues_is_followed_under_its_new_id():
    goes_on = started("next", "resume")
    done = TurnCompleted(turn_id="next", last_message="answer")
    assert follow(*BEGUN, goes_on) is None
    assert follow(*BEGUN, goes_on, done).text == "answer"
    # a second death, and words that came meanwhile begin the turn that continues the first
    later = (posted("more"), started("more"))
    done = TurnCompleted(turn_id="more", last_message="both")
    assert follow(*BEGUN, goes_on, *later, done).text == "both"


def test_a_turn_that_fails_before_it_reads_its_input_answers_it():
    failed = TurnFailed(turn_id="i", kind="network", message="no model")
    assert follow(posted(), failed) == TurnResult(status="failed", text="no model", turn_id="i")


def test_an_input_that_a_hook_withholds_is_answered_by_the_turn_that_was_to_read_it():
    withheld = read("i", source="note")
    failed = TurnFailed(turn_id="i", kind="hook", message="a hook blocked the prompt")
    assert follow(posted(), started("i"), withheld, failed).status == "failed"
    joined = (posted(), read("task", source="note"))
    assert follow(*joined, TurnCompleted(turn_id="task", last_message="x")).text == "x"


def test_an_interrupt_before_the_model_was_asked_ends_the_turn():
    assert follow(posted(), TurnAborted(turn_id="i")).status == "interrupted"


@pytest.mark.parametrize(
    ("state", "status"),
    [("crashed", "failed"), ("killed", "interrupted"), ("interrupted", "interrupted")],
)
def test_the_end_of_the_agent_in_the_middle_of_the_turn_ends_it(state, status):
    assert follow(*BEGUN, ended(state, "why")) == TurnResult(status=status, text="why", turn_id="i")


def test_an_agent_that_cannot_be_started_for_its_input_fails_it():
    assert follow(posted(), ended("crashed", "no process")).text == "no process"


def test_a_run_that_waits_for_input_owes_no_answer():
    assert follow(RunIdle(), posted()) is None
    assert follow(posted(), RunIdle(status="failed", message="lost")).text == "lost"
    assert follow(*BEGUN, RunIdle(status="interrupted")).status == "interrupted"


def test_the_end_of_the_run_ends_the_turn_unless_the_input_belongs_to_its_next_part():
    over = RunCompleted(status="failed", message="over")
    assert follow(*BEGUN, over).text == "over"
    assert follow(over, input_id="").text == "over"
    assert follow(over, *BEGUN, DONE).text == "answer"
