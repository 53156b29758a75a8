"""Whom nobody but the harness would start again: deaths at birth, words at the end, a lost run."""

import pytest
import trio

from support.team_in_memory import WORK, calls, open_tree, says
from swarm.mailbox.ids import new_uuid7
from swarm.mailbox.protocol.events import CallBegan, TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentSpawned, FanOutItemEnded, ItemRecorded
from swarm.supervisor.fan_out.fan_out_runner import FanOutRunner
from swarm.supervisor.fan_out.unread_inputs import find_unread_inputs
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.run_request import FanOut

LIMIT_S = 120  # of the virtual clock


def harness_of(tree):
    fan_out = FanOut(items=("a",), prompt="be {item}")
    return FanOutRunner(tree.running, tree.control, fan_out, Limits())


async def test_an_item_whose_process_dies_at_its_birth_begins_anew(tmp_path, autojump_clock):
    async with open_tree(tmp_path, {"/root/a": [says("a")]}) as tree:
        tree.mute.add("/root/a")
        with trio.fail_after(LIMIT_S):
            tree.nursery.start_soon(harness_of(tree).run, {})
            await tree.until(lambda: len(tree.children.get("/root/a", ())) == 2)
            tree.mute.clear()
            await tree.until(lambda: bool(tree.bodies(FanOutItemEnded)))
        (end,) = tree.bodies(FanOutItemEnded)
        assert (end.state, end.result, end.agent) == ("completed", "a", "/root/a")
        assert tree.slots == 0


async def test_a_root_whose_process_dies_at_its_birth_begins_anew(tmp_path, autojump_clock):
    async with open_tree(tmp_path, {"/root": [says("root")]}) as tree:
        tree.mute.add("/root")
        with trio.fail_after(LIMIT_S):
            tree.nursery.start_soon(tree.begin)
            await tree.until(lambda: len(tree.children.get("/root", ())) == 2)
            tree.mute.clear()
            assert (await tree.agency.wait_done()).state == "completed"


async def test_an_item_whose_process_never_lives_is_given_up_by_the_usual_rule(
    tmp_path, autojump_clock
):
    async with open_tree(tmp_path, {}) as tree:
        tree.mute.add("/root/a")
        with trio.fail_after(LIMIT_S):
            await harness_of(tree).run({})
        await tree.running.journal.flush()
        assert len(tree.children["/root/a"]) == 4
        (end,) = tree.bodies(FanOutItemEnded)
        assert end.state == "crashed"
        assert "did not answer" in end.result


async def test_an_item_that_is_spoken_to_while_it_ends_hears_it_and_then_frees_its_slot(
    tmp_path, autojump_clock
):
    words = spoken(new_uuid7(), "one more thing")
    scripts = {"/root/a": [(1.0, *says("a")), says("a, to a person")]}
    async with open_tree(tmp_path, scripts) as tree:
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as fan:
                fan.start_soon(harness_of(tree).run, {})
                await tree.until(lambda: "/root/a" in tree.control.agents)
                life = tree.control.agents["/root/a"]
                await life.done.wait()
                while life.wanted_end is None:  # the harness ends it in this very moment
                    await trio.lowlevel.checkpoint()
                await tree.agency.send_input(tree.agency.team.members["/root/a"], words)
            await tree.until(lambda: len(tree.bodies(AgentSpawned, "/root/a")) == 2)
            await tree.until(lambda: tree.slots == 0)
        items = [one.item for one in tree.bodies(ItemRecorded, "/root/a") if one.source == "user"]
        heard = [text_of(one.content) for one in items if isinstance(one, Message)]
        assert heard.count("one more thing") == 1
        assert [one.state for one in tree.bodies(FanOutItemEnded)] == ["completed"]


async def test_what_a_lost_agent_of_an_item_has_not_heard_its_next_one_hears_once(
    tmp_path, autojump_clock
):
    name = new_uuid7()
    scripts = {"/root/a": [(1.0, *says("never"))], "/root/a_2": [says("a"), says("a, again")]}
    async with open_tree(tmp_path, scripts) as tree:
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as lost:
                lost.start_soon(harness_of(tree).run, {})
                await tree.until(lambda: bool(tree.bodies(TurnStarted, "/root/a")))
                member = tree.agency.team.members["/root/a"]
                await tree.agency.send_input(member, spoken(name, "before its run was lost"))
                lost.cancel_scope.cancel()
            life = tree.control.agents["/root/a"]
            life.wanted_end = "killed"
            tree.children["/root/a"][-1].kill_group()  # as its supervisor's end would
            await life.gone.wait()
            await harness_of(tree).run({}, (life.plan.agent_id,))
            await tree.running.journal.flush()
        records = read_records(tree.running.paths)
        heard = [one.agent for one in records
                 if isinstance(one.body, ItemRecorded) and one.body.item_id == name]  # fmt: skip
        assert heard == ["/root/a_2"]
        places, agents = tree.running.paths, (life.plan.agent_id, agent_of(tree, "/root/a_2"))
        assert find_unread_inputs(places, agents) == {}


def spoken(name, text):
    return UserInput(input_id=name, parts=(TextInput(text=text),))


def agent_of(tree, path):
    return tree.bodies(AgentSpawned, path)[0].agent_id


async def at_work(tree, *paths):
    for path in paths:
        await tree.until(lambda path=path: bool(tree.bodies(CallBegan, path)))


async def ctrl_c(tree):
    await at_work(tree, "/root/b", "/root/c")
    tree.ending.interrupt()


async def ctrl_c_at_a_birth(tree):
    await at_work(tree, "/root/b")
    await tree.until(lambda: "/root/c" in tree.children)
    tree.ending.interrupt()


async def sigterm(tree):
    await at_work(tree, "/root/b", "/root/c")
    tree.ending.end("terminated")


async def sigterm_at_a_birth(tree):
    await at_work(tree, "/root/b")
    await tree.until(lambda: "/root/c" in tree.children)
    tree.ending.end("terminated")


async def deadline(tree):
    await at_work(tree, "/root/b", "/root/c")
    tree.ending.end("deadline")


@pytest.mark.parametrize("end", [ctrl_c, ctrl_c_at_a_birth, sigterm, sigterm_at_a_birth, deadline])
async def test_items_that_the_end_of_a_run_cuts_off_have_an_end_and_a_resume_does_the_rest(
    tmp_path, autojump_clock, end
):
    fan_out = FanOut(items=("a", "b", "c", "d"), prompt="be {item}", concurrency=2, retries=1)
    scripts = {"/root/a": [says("a")], "/root/b": [calls(WORK)], "/root/c": [calls(WORK)]}
    async with open_tree(tmp_path, scripts, prompt="sum", fan_out=fan_out) as tree:
        if "birth" in end.__name__:
            tree.mute.add("/root/c")
        tree.nursery.start_soon(end, tree)
        with trio.fail_after(LIMIT_S):
            completed = await tree.work()
        assert completed.status == {"c": "interrupted", "s": "terminated"}.get(
            end.__name__[0], "deadline"
        )
        ends = [(one.item, one.state, one.attempt) for one in tree.bodies(FanOutItemEnded)]
        assert sorted(ends) == [
            ("a", "completed", 1), ("b", "interrupted", 1), ("c", "interrupted", 1)
        ]  # fmt: skip
        assert (tree.alive - tree.mute, tree.slots) == (set(), 0)
        past = tree.past()
    scripts = {f"/root/{name}": [says(name)] for name in ("a_2", "b_2", "c", "c_2", "d")}
    scripts["/root"] = [says("sum")]
    async with open_tree(tmp_path, scripts, prompt="sum", fan_out=fan_out, resumes=True) as tree:
        with trio.fail_after(LIMIT_S):
            assert (await tree.work(past)).result == "sum"
        ends = {one.item: one.state for one in tree.bodies(FanOutItemEnded)}
        assert ends == dict.fromkeys("abcd", "completed")
        assert len(tree.bodies(FanOutItemEnded)) == 6  # b and c have two
        assert "/root/a_2" not in tree.lives
