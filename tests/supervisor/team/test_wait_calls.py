"""When a wait is over, and what it says."""

import pytest
import trio

from support.agent_records import add_working, end_work
from swarm.supervisor.agents.agent_directory import AgentDirectory
from swarm.supervisor.agents.finished_agents import FinishedAgents
from swarm.supervisor.agents.life.mail_delivery import make_mail
from swarm.supervisor.agents.slots import AgentRegistry
from swarm.supervisor.team.wait_calls import decide_wait, result_at_timeout


@pytest.fixture
def tree(tmp_path):
    team = AgentDirectory(AgentRegistry(8), FinishedAgents(tmp_path))
    return team, *(add_working(team, path) for path in ("/root", "/root/a", "/root/b"))


def finished(waited):
    return [(one.path, one.status, one.result) for one in waited.finished]


def test_nothing_is_told_while_nothing_has_happened(tree):
    team, root, a, b = tree
    assert decide_wait(team, root, [], "any") is None
    assert decide_wait(team, root, [a, b], "any") is None


def test_any_is_over_with_the_first_and_all_with_the_last(tree):
    team, root, a, b = tree
    end_work(team, a)
    waited = decide_wait(team, root, [a, b], "any")
    assert (finished(waited), waited.still_running) == (
        [("/root/a", "completed", "done")],
        (b.path,),
    )
    assert decide_wait(team, root, [a, b], "all") is None
    end_work(team, b, "failed", "why")
    assert finished(decide_wait(team, root, [a, b], "all"))[1] == ("/root/b", "failed", "why")
    assert decide_wait(team, root, [], "all").still_running == ()


@pytest.mark.parametrize("state", ["killed", "crashed", "interrupted", "budget", "deadline"])
def test_however_an_agent_ended_the_wait_for_it_is_over(tree, state):
    team, root, a, _ = tree
    end_work(team, a, state)
    assert finished(decide_wait(team, root, [a], "all"))[0][1] == state


def test_without_targets_each_end_is_news_once(tree):
    team, root, a, _ = tree
    end_work(team, a)
    assert finished(decide_wait(team, root, [], "any")) == [("/root/a", "completed", "done")]
    assert decide_wait(team, root, [], "any") is None
    end_work(team, a, message="again")
    assert finished(decide_wait(team, root, [], "any")) == [("/root/a", "completed", "again")]


def test_a_message_ends_every_wait_and_anothers_answer_only_one_without_targets(tree):
    team, root, a, _ = tree
    team.add_mail(root, make_mail("/root/b", "/root", "done", kind="final_answer"))
    assert decide_wait(team, root, [a], "all") is None
    assert decide_wait(team, root, [], "any").mail == 1
    team.add_mail(root, make_mail("/root/b", "/root", "hello"))
    waited = decide_wait(team, root, [a], "all")
    assert (waited.mail, waited.timed_out, waited.still_running) == (2, False, (a.path,))


async def test_a_persons_word_ends_a_wait(tree):
    team, root, a, _ = tree
    root.expect_turn("input", is_continue=False)
    assert decide_wait(team, root, [a], "all").still_running == (a.path,)


def test_a_wait_that_nobody_can_end_is_over_at_once(tree):
    team, root, a, b = tree
    end_work(team, a)
    end_work(team, b)
    assert len(decide_wait(team, root, [], "any").finished) == 2


def test_when_time_is_up_those_who_finished_all_the_same_are_told(tree):
    team, root, a, b = tree
    end_work(team, a)
    waited = result_at_timeout(team, root, [a, b])
    assert (waited.timed_out, len(waited.finished), waited.still_running) == (True, 1, (b.path,))


def test_the_tree_is_at_rest_when_nobody_works_and_no_mail_will_wake_anybody(tree):
    team, root, a, b = tree
    for member in (root, a, b):
        end_work(team, member)
    assert team.is_idle
    posted_mail = make_mail("/root/a", "/root", "wake up", wakes=True)
    team.add_mail(root, posted_mail)
    assert not team.is_idle
    del root.unread_mail[posted_mail.mail_id]
    team.forget_read_mail(root)
    assert team.is_idle


async def test_the_bell_wakes_everybody_who_waits_for_a_change(tree, nursery):
    team, _, a, _ = tree
    woken: list[int] = []

    async def watch(number):
        await team.wait_change()
        woken.append(number)

    nursery.start_soon(watch, 1)
    nursery.start_soon(watch, 2)
    await trio.testing.wait_all_tasks_blocked()
    end_work(team, a)
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(woken) == [1, 2]
