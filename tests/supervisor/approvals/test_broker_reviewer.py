"""The reviewer's verdicts: its word, a person's word against it, and the breaker."""

import trio
from trio.testing import wait_all_tasks_blocked

from support.broker_story import ME, Story, asks
from swarm.mailbox.protocol.control import Done, Refused
from swarm.mailbox.protocol.records import GrantGiven
from swarm.mailbox.protocol.requests import Decided
from swarm.supervisor.approvals.approval_types import ReviewVerdict
from swarm.supervisor.approvals.broker import KEPT_DENIALS


class Judge:
    """An automatic reviewer that gives its verdict once it may."""

    def __init__(self, verdict: ReviewVerdict) -> None:
        self.verdict, self.go = verdict, trio.Event()
        self.asked: list[str] = []
        self.cancelled = 0

    async def review(self, pending) -> ReviewVerdict:
        self.asked.append(pending.approval_id)
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        return self.verdict


async def test_the_reviewer_decides_and_a_person_who_is_quicker_ends_the_review():
    judge = Judge(ReviewVerdict(outcome="denied", text="No: it leaks."))
    story = Story(reviewer="guardian", judge=judge)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", asks())
        await wait_all_tasks_blocked()
        await story.say("a1")
    assert (story.decided["one"].by, judge.cancelled) == ("person", 1)
    judge.go.set()
    await story.ask("two", asks())
    assert story.decided["two"] == Decided(outcome="denied", by="guardian", text="No: it leaks.")


async def test_a_person_overrules_the_reviewer_once_for_exactly_that():
    judge = Judge(ReviewVerdict(outcome="denied", rationale="leaks"))
    story = Story(reviewer="guardian", judge=judge)
    judge.go.set()
    await story.ask("one", asks())
    (entry,) = story.answers.entries()
    assert entry.denied == "leaks"
    assert isinstance(await story.say("a1", scope="session"), Refused)
    assert isinstance(await story.say("a1"), Done)
    assert story.notified == [(ME, "a1")]
    await story.ask("else", asks("y"))
    await story.ask("again", asks())
    await story.ask("and again", asks())
    outcomes = {name: (one.outcome, one.by) for name, one in story.decided.items()}
    assert outcomes["else"] == ("denied", "guardian")
    assert outcomes["again"] == ("approved", "grant")
    assert outcomes["and again"] == ("denied", "guardian")
    assert [one.used_up for one in story.finished.of(GrantGiven)] == [False, True]


async def test_only_the_last_denials_are_kept():
    judge = Judge(ReviewVerdict(outcome="denied"))
    story = Story(reviewer="guardian", judge=judge)
    judge.go.set()
    for number in range(KEPT_DENIALS + 3):
        await story.ask("one", asks(f"{number}"))
    assert len(story.answers.entries()) == KEPT_DENIALS


async def test_a_reviewer_that_never_answers_has_failed(autojump_clock):
    judge = Judge(ReviewVerdict(outcome="approved"))
    story = Story(reviewer="guardian", judge=judge)
    await story.ask("one", asks())
    assert story.decided["one"].outcome == "failed"
    assert "reviewer failed" in story.decided["one"].text


async def test_a_tripped_breaker_ends_the_turn():
    judge = Judge(ReviewVerdict(outcome="denied", abort_turn=True))
    story = Story(reviewer="guardian", judge=judge)
    judge.go.set()
    await story.ask("one", asks())
    assert story.decided["one"].outcome == "aborted"
