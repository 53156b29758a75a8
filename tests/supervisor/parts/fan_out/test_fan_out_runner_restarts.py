"""Whom nobody but the harness would start again: deaths at start, words at the end, a lost run."""

import pytest
import trio

from support.team_in_memory import WORK, calls, open_team, says
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.events import CallBegan, TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentSpawned, FanOutItemEnded, ItemRecorded
from swarm.mailbox.protocol.values.limits import Limits
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.parts.fan_out.fan_out_runner import FanOutRunner, find_unread_inputs
from swarm.supervisor.request.run_request import FanOut

LIMIT_S = 120  # of the virtual clock


def harness_of(team):
    fan_out = FanOut(items=("a",), prompt="be {item}")
    return FanOutRunner(team.running, team.control, fan_out, Limits())


async def test_an_item_whose_process_dies_at_its_start_begins_again(tmp_path, autojump_clock):
    async with open_team(tmp_path, {"/root/a": [says("a")]}) as team:
        team.mute.add("/root/a")
        with trio.fail_after(LIMIT_S):
            team.nursery.start_soon(harness_of(team).run, {})
            await team.until(lambda: len(team.children.get("/root/a", ())) == 2)
            team.mute.clear()
            await team.until(lambda: bool(team.bodies(FanOutItemEnded)))
        (end,) = team.bodies(FanOutItemEnded)
        assert (end.state, end.result, end.agent) == ("completed", "a", "/root/a")
        assert team.slots == 0


async def test_a_root_whose_process_dies_at_its_start_begins_again(tmp_path, autojump_clock):
    async with open_team(tmp_path, {"/root": [says("root")]}) as team:
        team.mute.add("/root")
        with trio.fail_after(LIMIT_S):
            team.nursery.start_soon(team.begin)
            await team.until(lambda: len(team.children.get("/root", ())) == 2)
            team.mute.clear()
            assert (await team.service.wait_done()).state == "completed"


async def test_an_item_whose_process_never_lives_is_given_up_by_the_usual_rule(
    tmp_path, autojump_clock
):
    async with open_team(tmp_path, {}) as team:
        team.mute.add("/root/a")
        with trio.fail_after(LIMIT_S):
            await harness_of(team).run({})
        await team.running.journal.flush()
        assert len(team.children["/root/a"]) == 4
        (end,) = team.bodies(FanOutItemEnded)
        assert end.state == "crashed"
        assert "did not answer" in end.result


async def test_an_item_that_is_spoken_to_while_it_ends_hears_it_and_then_frees_its_slot(
    tmp_path, autojump_clock
):
    words = spoken(new_uuid7(), "one more thing")
    scripts = {"/root/a": [(1.0, *says("a")), says("a, to a person")]}
    async with open_team(tmp_path, scripts) as team:
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as fan:
                fan.start_soon(harness_of(team).run, {})
                await team.until(lambda: "/root/a" in team.control.agents)
                life = team.control.agents["/root/a"]
                await life.done.wait()
                while life.wanted_end is None:  # the harness ends it in this very moment
                    await trio.lowlevel.checkpoint()
                await team.service.send_input(team.service.team.members["/root/a"], words)
            await team.until(lambda: len(team.bodies(AgentSpawned, "/root/a")) == 2)
            await team.until(lambda: team.slots == 0)
        items = [one.item for one in team.bodies(ItemRecorded, "/root/a") if one.source == "user"]
        heard = [text_of(one.content) for one in items if isinstance(one, Message)]
        assert heard.count("one more thing") == 1
        assert [one.state for one in team.bodies(FanOutItemEnded)] == ["completed"]


async def test_what_a_lost_agent_of_an_item_has_not_heard_its_next_one_hears_once(
    tmp_path, autojump_clock
):
    name = new_uuid7()
    scripts = {"/root/a": [(1.0, *says("never"))], "/root/a_2": [says("a"), says("a, again")]}
    async with open_team(tmp_path, scripts) as team:
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as lost:
                lost.start_soon(harness_of(team).run, {})
                await team.until(lambda: bool(team.bodies(TurnStarted, "/root/a")))
                member = team.service.team.members["/root/a"]
                await team.service.send_input(member, spoken(name, "before its run was lost"))
                lost.cancel_scope.cancel()
            life = team.control.agents["/root/a"]
            life.wanted_end = "killed"
            team.children["/root/a"][-1].kill_group()  # as its supervisor's end would
            await life.gone.wait()
            await harness_of(team).run({}, (life.plan.agent_id,))
            await team.running.journal.flush()
        records = read_records(team.running.paths)
        heard = [one.agent for one in records
                 if isinstance(one.body, ItemRecorded) and one.body.item_id == name]  # fmt: skip
        assert heard == ["/root/a_2"]
        places, agents = team.running.paths, (life.plan.agent_id, agent_of(team, "/root/a_2"))
        assert find_unread_inputs(places, agents) == {}


def spoken(name, text):
    return UserInput(input_id=name, parts=(TextInput(text=text),))


def agent_of(team, path):
    return team.bodies(AgentSpawned, path)[0].agent_id


async def at_work(team, *paths):
    for path in paths:
        await team.until(lambda path=path: bool(team.bodies(CallBegan, path)))


async def ctrl_c(team):
    await at_work(team, "/root/b", "/root/c")
    team.ending.interrupt()


async def ctrl_c_at_a_start(team):
    await at_work(team, "/root/b")
    await team.until(lambda: "/root/c" in team.children)
    team.ending.interrupt()


async def interrupt_of_all(team):
    await at_work(team, "/root/b", "/root/c")
    await team.ending.interrupt_all("a person interrupted it", keep_commands=False)


async def sigterm(team):
    await at_work(team, "/root/b", "/root/c")
    team.ending.end("terminated")


async def sigterm_at_a_start(team):
    await at_work(team, "/root/b")
    await team.until(lambda: "/root/c" in team.children)
    team.ending.end("terminated")


async def deadline(team):
    await at_work(team, "/root/b", "/root/c")
    team.ending.end("deadline")


@pytest.mark.parametrize(
    "end",
    [ctrl_c, ctrl_c_at_a_start, interrupt_of_all, sigterm, sigterm_at_a_start, deadline],
)
async def test_items_that_the_end_of_a_run_cuts_off_have_an_end_and_a_resume_does_the_rest(
    tmp_path, autojump_clock, end
):
    fan_out = FanOut(items=("a", "b", "c", "d"), prompt="be {item}", concurrency=2, retries=1)
    scripts = {"/root/a": [says("a")], "/root/b": [calls(WORK)], "/root/c": [calls(WORK)]}
    async with open_team(tmp_path, scripts, prompt="sum", fan_out=fan_out) as team:
        if "start" in end.__name__:
            team.mute.add("/root/c")
        team.nursery.start_soon(end, team)
        with trio.fail_after(LIMIT_S):
            completed = await team.work()
        expected = {"c": "interrupted", "i": "interrupted", "s": "terminated", "d": "deadline"}
        assert completed.status == expected[end.__name__[0]]
        ends = [(one.item, one.state, one.attempt) for one in team.bodies(FanOutItemEnded)]
        assert sorted(ends) == [
            ("a", "completed", 1), ("b", "interrupted", 1), ("c", "interrupted", 1)
        ]  # fmt: skip
        assert (team.alive - team.mute, team.slots) == (set(), 0)
        past = team.past()
    scripts = {f"/root/{name}": [says(name)] for name in ("a_2", "b_2", "c", "c_2", "d")}
    scripts["/root"] = [says("sum")]
    async with open_team(tmp_path, scripts, prompt="sum", fan_out=fan_out, resumes=True) as team:
        with trio.fail_after(LIMIT_S):
            assert (await team.work(past)).result == "sum"
        ends = {one.item: one.state for one in team.bodies(FanOutItemEnded)}
        assert ends == dict.fromkeys("abcd", "completed")
        assert len(team.bodies(FanOutItemEnded)) == 6  # b and c have two
        assert "/root/a_2" not in team.lives
