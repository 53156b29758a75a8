"""Finished agents lie on disk: memory does not know them, and whoever asks cannot tell."""

import gc
import os
import string
from contextlib import closing
from pathlib import Path

import pytest

from support.agent_records import add_working, end_work, plan_of
from swarm.supervisor.agents.agent_directory import AgentDirectory
from swarm.supervisor.agents.agent_phases import AgentEvent
from swarm.supervisor.agents.finished_agents import (
    FinishedAgent,
    FinishedAgents,
    FinishedAgentsUnreadable,
)
from swarm.supervisor.agents.life.mail_delivery import make_mail
from swarm.supervisor.agents.slots import AgentRegistry, PathTaken
from swarm.supervisor.team.wait_calls import decide_wait

MANY = 300


def finish(team, agent, *, told=True):
    end_work(team, agent, message=f"answer of {agent.path}")
    parent = team.find(agent.plan.parent)
    parent.children[agent.path] = agent.plan.nickname
    if told:
        team.mark_reported(parent, agent)


def fill(team, parent="/root", *, many=MANY, told=True):
    """Agents that come and go, one after another."""
    for number in range(many):
        finish(team, add_working(team, f"{parent}/a{number}"), told=told)
    gc.collect()


@pytest.fixture
def archive(tmp_path):
    with closing(FinishedAgents(tmp_path)) as archive:
        yield archive


@pytest.fixture
def registry(archive):
    return AgentRegistry(8, archive=archive)


@pytest.fixture
def team(archive, registry):
    team = AgentDirectory(registry, archive)
    add_working(team, "/root")
    return team


def test_memory_holds_few_of_many_that_have_finished(team):
    fill(team)
    few = len(team.members)
    fill(team, many=MANY, parent="/root/a0")
    assert few < MANY / 2
    assert len(team.members) < MANY / 2


def test_each_is_found_with_all_that_it_came_to(team):
    fill(team)
    for number in range(MANY):
        member = team.find(f"/root/a{number}")
        assert member.as_reply().result == f"answer of {member.path}"
        assert (member.status, member.end_count, member.ends_reported, member.epoch) == (
            "completed",
            1,
            1,
            1,
        )
        assert member.plan == plan_of(member.path)
        assert member.last_turn_end.last_message == member.outcome.message


def test_who_is_not_there_is_not_found(team):
    fill(team)
    assert team.find("/root/b") is None
    assert team.find("/root/a1/deeper") is None


def test_who_holds_one_that_was_put_away_and_who_finds_it_hold_the_same(team):
    held = add_working(team, "/root/held")
    finish(team, held)
    fill(team)
    assert "/root/held" not in team.members
    assert team.find("/root/held") is held


def test_one_that_was_put_away_comes_back_when_its_holder_changes_it(team):
    first, second = add_working(team, "/root/one"), add_working(team, "/root/two")
    finish(team, first)
    finish(team, second)
    fill(team)
    team.apply(first, AgentEvent.PROCESS_REQUESTED)
    posted_mail = make_mail("/root", "/root/two", "again", kind="followup", wakes=True)
    team.add_mail(second, posted_mail)
    del first, second
    gc.collect()
    assert team.find("/root/one").status == "queued"
    assert team.find("/root/two").has_waking_mail


def test_who_works_has_unread_mails_or_company_below_stays(team):
    works, reads, above = (
        add_working(team, f"/root/{name}") for name in ("works", "reads", "above")
    )
    add_working(team, "/root/above/child")
    team.add_mail(reads, make_mail("/root", reads.path, "unread"))
    finish(team, reads)
    finish(team, above)
    fill(team)
    for member in (works, reads, above):
        assert team.members[member.path] is member


def test_an_end_that_its_parent_has_not_heard_of_is_kept_as_news(team):
    fill(team, told=False)
    assert len(team.members) == MANY + 1
    root = team.find("/root")
    assert len(decide_wait(team, root, [], "any").finished) == MANY
    fill(team, many=3 * MANY, parent="/root/a0")
    assert len(team.members) < MANY


def test_a_wait_for_all_children_tells_also_of_those_that_were_put_away(team):
    fill(team)
    last = add_working(team, "/root/last")
    root = team.find("/root")
    assert decide_wait(team, root, [], "all") is None
    finish(team, last, told=False)
    told = decide_wait(team, root, [], "all").finished
    assert [one.path for one in told] == [f"/root/a{n}" for n in range(MANY)] + ["/root/last"]


def test_a_wait_for_news_is_not_ended_by_what_was_heard_long_ago(team):
    fill(team)
    add_working(team, "/root/last")
    assert decide_wait(team, team.find("/root"), [], "any") is None


def test_the_subtree_is_whole_and_its_parents_come_with_a_child(team):
    fill(team, many=10)
    fill(team, parent="/root/a3")
    fill(team, parent="/root/a4")
    assert "/root/a3/a7" not in team.members
    team.find("/root/a3/a7")
    assert "/root/a3" in team.members
    assert len(team.subtree("/root/a3")) == MANY + 1


def test_a_closed_one_stays_closed_and_is_nobodys_child(team):
    fill(team)
    closed = team.find("/root/a5")
    team.apply(closed, AgentEvent.CLOSED)
    team.find("/root").children.pop("/root/a5")
    del closed
    fill(team, parent="/root/a6")
    assert "/root/a5" not in team.members
    assert "/root/a5" not in team.open_children("/root")
    assert team.open_children("/root")["/root/a7"] == "nick /root/a7"
    assert len(team.open_children("/root")) == MANY - 1
    assert team.find("/root/a5").closed


def test_a_path_stays_its_agents_also_when_memory_does_not_know_it(team, registry):
    with registry.reserve("/root/a0", agent_id="id /root/a0") as slot:
        slot.commit(77)
    registry.release("/root/a0", 77)
    fill(team)
    assert "0 paths" in repr(registry)
    assert registry.is_known("/root/a0")
    with pytest.raises(PathTaken):
        registry.check_path("/root/a0", agent_id="another")
    registry.check_path("/root/a0", agent_id="id /root/a0")


def test_a_forgotten_one_leaves_nothing_but_its_path(team, registry):
    for number in range(MANY):
        member = add_working(team, f"/root/item{number}", reports=False)
        team.apply(member, AgentEvent.WORK_ENDED)
        team.forget(member)
    assert team.find("/root/item0") is None
    assert registry.is_known("/root/item0")
    assert team.find_named("item0") == []
    assert team.subtree("/root/item0") == []


def test_one_that_never_lived_leaves_its_name_free(team, registry):
    member = team.add_queued(plan_of("/root/refused"))
    team.forget(member)
    fill(team)
    assert not registry.is_known("/root/refused")


def test_one_is_found_by_its_last_step_wherever_it_lies(team):
    fill(team)
    add_working(team, "/root/busy")
    assert [one.path for one in team.find_named("a17")] == ["/root/a17"]
    assert [one.path for one in team.find_named("busy")] == ["/root/busy"]
    assert team.find_named("17") == []


def test_the_file_has_no_name_that_could_be_left_behind(team, tmp_path):
    fill(team)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_costs_memory_and_nobody(tmp_path):
    team = AgentDirectory(AgentRegistry(8), FinishedAgents(tmp_path / "missing"))
    add_working(team, "/root")
    fill(team)
    assert len(team.members) == MANY + 1
    assert team.find("/root/a0").outcome.message == "answer of /root/a0"


def test_a_shelf_that_cannot_be_read_says_so_and_nobody_is_silently_missing(tmp_path):
    with closing(FinishedAgents(tmp_path)) as shelf:
        page = b"." * 4096  # more in all than it keeps in memory
        paths = [f"/root/{name}" for name in string.ascii_lowercase]
        assert shelf.put([FinishedAgent(path, "/root", "a", 1, encoded=page) for path in paths])
        os.truncate(nameless_file(tmp_path), 0)
        with pytest.raises(FinishedAgentsUnreadable, match="swarm resume"):
            shelf.descendants_of("/root")


def nameless_file(folder):
    """Where this process holds a file open that was made in `folder` and has no name any more."""
    fds = Path("/proc/self/fd").iterdir()
    return next(fd for fd in fds if fd.is_symlink() and os.readlink(fd).startswith(f"{folder}/"))
