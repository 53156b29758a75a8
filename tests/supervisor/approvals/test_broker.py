"""The queue: grants before questions, one answer, and no yes out of silence."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from support.broker_story import ME, OTHER, Story, asks, host
from swarm.mailbox.protocol.approvals import (
    ApprovalGrant,
    ApprovalRequest,
    PersonQuestion,
    QuestionsAction,
)
from swarm.mailbox.protocol.control import Done, Refused
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved, GrantGiven
from swarm.mailbox.protocol.requests import Decided
from swarm.supervisor.approvals.approval_grants import ApprovalsPast
from swarm.supervisor.approvals.approval_limits import MAX_OPEN


async def test_a_question_is_written_before_it_is_seen_and_its_answer_before_it_is_heard():
    story = Story()
    story.finished.held = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", asks())
        await wait_all_tasks_blocked()
        assert story.answers.entries() == ()
        story.finished.write_all()
        (entry,) = story.answers.entries()
        assert (entry.approval_id, entry.agent, entry.asked_at) == ("a1", ME, 5.0)
        story.finished.held = []
        nursery.start_soon(story.say)
        await wait_all_tasks_blocked()
        assert story.decided == {}
        story.finished.write_all()
    assert story.decided["one"] == Decided(outcome="approved", by="person")
    assert [type(body) for body in story.finished.bodies] == [ApprovalRequested, ApprovalResolved]


@pytest.mark.parametrize("wanted", ["a1", "a"])
async def test_who_reads_the_journal_first_and_answers_at_once_is_heard(wanted):
    """The record is on disk before the supervisor knows of it; a client may be faster."""
    story, said = Story(), []
    story.finished.held = []

    async def say() -> None:
        said.append(await story.say(wanted))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", asks())
        await wait_all_tasks_blocked()
        nursery.start_soon(say)
        await wait_all_tasks_blocked()
        assert (story.decided, said) == ({}, [])
        story.finished.write_all()
    assert story.decided["one"] == Decided(outcome="approved", by="person")
    assert isinstance(said[0], Done)


async def test_an_answer_to_a_question_that_ends_before_it_is_written_is_told_so():
    story, said, asked = Story(), [], trio.CancelScope()
    story.finished.held = []

    async def ask() -> None:
        with asked:
            await story.ask("one", asks())

    async def say() -> None:
        said.append(await story.say())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        nursery.start_soon(say)
        await wait_all_tasks_blocked()
        asked.cancel()
        await wait_all_tasks_blocked()
        story.finished.write_all()
    assert isinstance(said[0], Refused)
    assert "a1 is over: aborted" in said[0].message


async def test_the_first_answer_counts_and_the_second_is_told_so():
    story = Story()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", asks())
        await wait_all_tasks_blocked()
        assert isinstance(await story.say(approve=False, reason="use y"), Done)
        late = await story.say()
    assert story.decided["one"].text == "exec command rejected by user: use y"
    assert isinstance(late, Refused)
    assert "over: denied by person" in late.message
    assert len(story.finished.of(ApprovalResolved)) == 1


async def test_a_yes_for_the_session_is_not_asked_again_and_holds_for_that_agent_alone():
    story = Story()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", asks())
        await wait_all_tasks_blocked()
        await story.say(scope="session")
    await story.ask("again", asks())
    assert story.decided["again"].by == "grant"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "other", asks(), OTHER)
        await wait_all_tasks_blocked()
        assert [one.agent for one in story.answers.entries()] == [OTHER]
        nursery.cancel_scope.cancel()
    kinds = [type(body) for body in story.finished.bodies]
    assert kinds.index(GrantGiven) < kinds.index(ApprovalResolved)


async def test_always_saves_the_rule_first_and_nothing_is_approved_when_that_fails():
    story = Story()
    story.save_fails = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", asks(proposed_prefix=("touch",)))
        await wait_all_tasks_blocked()
        failed = await story.say(scope="always")
        assert isinstance(failed, Refused)
        assert "nothing was approved" in failed.message
        assert story.decided == {}
        story.save_fails = False
        done = await story.say(scope="always")
        assert "/home/rules" in done.message
    assert story.decided["one"].scope == "always"
    assert len(story.saved) == 1
    await story.ask("another agent", asks("y"), OTHER)
    assert story.decided["another agent"].by == "grant"


async def test_a_rule_is_written_then_told_to_all_and_only_then_is_the_answer_heard():
    story = Story()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", asks(proposed_prefix=("touch",)))
        await wait_all_tasks_blocked()
        await story.say(scope="always")
    assert story.spread == [(1, False)]
    kinds = [type(body) for body in story.finished.bodies]
    assert kinds == [ApprovalRequested, GrantGiven, ApprovalResolved]


@pytest.mark.parametrize(
    ("scope", "answered"),
    [
        ("once", {"one"}),
        ("session", {"one", "mine again"}),
        ("subtree", {"one", "mine again", "child's"}),
        ("always", {"one", "mine again", "child's", "other's", "another word"}),
    ],
)
async def test_what_waits_and_is_covered_by_the_answer_is_asked_no_more(scope, answered):
    story = Story()
    request = asks(proposed_prefix=("touch",))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", request)
        await wait_all_tasks_blocked()
        nursery.start_soon(story.ask, "mine again", request)
        nursery.start_soon(story.ask, "child's", request, f"{ME}/child")
        nursery.start_soon(story.ask, "other's", request, OTHER)
        nursery.start_soon(story.ask, "another word", asks("y"), OTHER)
        nursery.start_soon(story.ask, "a rule's", asks("z", cause="rule"), OTHER)
        await wait_all_tasks_blocked()
        await story.say("a1", scope=scope)
        await wait_all_tasks_blocked()
        assert set(story.decided) == answered
        assert {story.decided[name].by for name in answered - {"one"}} <= {"grant"}
        assert story.decided["one"].by == "person"
        assert len(story.answers.entries()) == 6 - len(answered)
        nursery.cancel_scope.cancel()


async def test_whoever_stops_waiting_has_withdrawn_the_question():
    story = Story()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", asks())
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert story.answers.entries() == ()
    (resolved,) = story.finished.of(ApprovalResolved)
    assert (resolved.outcome, resolved.by) == ("aborted", "nobody")
    assert isinstance(await story.say(), Refused)


async def test_silence_is_no_yes(autojump_clock):
    story = Story(timeout_s=60)
    await story.ask("one", asks())
    assert trio.current_time() == pytest.approx(60)
    assert story.decided["one"].outcome == "timed_out"
    assert "not a verdict" in story.decided["one"].text


@pytest.mark.parametrize("limits", [{"approval": "never"}, {"reviewer": "nobody"}])
async def test_what_nobody_can_answer_is_refused_at_once_and_asks_nobody(limits):
    story = Story(**limits)
    await story.ask("one", asks())
    assert story.decided["one"].outcome == "unavailable"
    assert story.finished.bodies == []


async def test_one_host_is_one_question_for_the_whole_tree():
    story = Story()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", host(), ME)
        await wait_all_tasks_blocked()
        nursery.start_soon(story.ask, "two", host(), OTHER)
        nursery.start_soon(story.ask, "three", host("g"), OTHER)
        await wait_all_tasks_blocked()
        assert [one.agent for one in story.answers.entries()] == [ME, OTHER]
        await story.say("a1")
        await story.say("a2", approve=False)
    assert {name: one.outcome for name, one in story.decided.items()} == {
        "one": "approved", "two": "approved", "three": "denied",
    }  # fmt: skip


async def test_when_the_first_asker_dies_the_next_one_asks():
    story = Story()
    scope = trio.CancelScope()

    async def first() -> None:
        with scope:
            await story.ask("one", host())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await wait_all_tasks_blocked()
        nursery.start_soon(story.ask, "two", host(), OTHER)
        await wait_all_tasks_blocked()
        scope.cancel()
        await wait_all_tasks_blocked()
        (entry,) = story.answers.entries()
        assert entry.agent == OTHER
        await story.say(entry.approval_id)
    assert list(story.decided) == ["two"]


async def test_an_agent_cannot_fill_the_queue():
    story = Story()
    async with trio.open_nursery() as nursery:
        for number in range(MAX_OPEN):
            nursery.start_soon(story.ask, f"{number}", asks(f"{number}"))
        await wait_all_tasks_blocked()
        await story.ask("one more", asks("more"))
        assert story.decided["one more"].outcome == "unavailable"
        nursery.cancel_scope.cancel()


async def test_questions_need_an_answer_each_and_ids_may_be_cut():
    story = Story()
    questions = tuple(
        PersonQuestion(id=name, header=name, question="?", options=()) for name in ("p", "q")
    )
    request = ApprovalRequest(action=QuestionsAction(questions=questions), cause="question")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", request)
        await wait_all_tasks_blocked()
        for answers in ({}, {"p": ("1",)}, {"p": ("1",), "q": ("2",), "z": ("3",)}):
            assert isinstance(await story.say("a1", answers=answers), Refused)
        said = {"p": ("1",), "q": ("2",)}
        assert isinstance(await story.say("A", answers=said), Done)
    assert story.decided["one"].answers == said


async def test_a_resumed_run_goes_on_counting_and_closes_what_was_open():
    grant = ApprovalGrant(grant_id="g1", path=ME, keys=("x",))
    story = Story(past=ApprovalsPast(grants=(grant,), unanswered=(("a7", ME),), last_number=7))
    (resolved,) = story.finished.of(ApprovalResolved)
    assert (resolved.approval_id, resolved.outcome) == ("a7", "aborted")
    await story.ask("granted before", asks())
    assert story.decided["granted before"].by == "grant"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "new", asks("y"))
        await wait_all_tasks_blocked()
        assert story.answers.entries()[0].approval_id == "a8"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("agent", "hook", "open_after"), [
    (ME, "guard", 0), (ME, "forged", 1), ("/root/locked", "guard", 1), (ME, "", 1),
])  # fmt: skip
async def test_a_hook_approves_for_the_agents_that_it_may_approve_for_and_no_other(
    agent, hook, open_after
):
    story = Story(hooks=frozenset({"guard"}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.ask, "one", asks(allowed_by_hook=hook), agent)
        await wait_all_tasks_blocked()
        assert len(story.answers.entries()) == open_after
        nursery.cancel_scope.cancel()
    if not open_after:
        assert story.decided["one"].by == "hook"
