"""Whom nobody but the harness would start again: deaths at birth, words at the end, a lost run."""

import sys
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent))
from tree_rehearsal import open_tree, says

from swarm.mailbox.ids import new_uuid7
from swarm.mailbox.protocol.events import TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentSpawned, FanOutItemEnded, ItemRecorded
from swarm.supervisor.fanout.harness import Harness
from swarm.supervisor.fanout.unheard import unheard_words
from swarm.supervisor.journal.reading import read_records
from swarm.supervisor.request import FanOut

LIMIT_S = 120  # of the virtual clock


def harness_of(tree):
    fan_out = FanOut(items=("a",), prompt="be {item}")
    return Harness(tree.running, tree.control, fan_out, Limits())


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
            assert (await tree.agency.wait_over()).state == "completed"


async def test_an_item_whose_process_never_lives_is_given_up_by_the_usual_rule(
    tmp_path, autojump_clock
):
    async with open_tree(tmp_path, {}) as tree:
        tree.mute.add("/root/a")
        with trio.fail_after(LIMIT_S):
            await harness_of(tree).run({})
        await tree.running.journal.settle()
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
                await tree.agency.say(tree.agency.team.members["/root/a"], words)
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
                await tree.agency.say(member, spoken(name, "before its run was lost"))
                lost.cancel_scope.cancel()
            life = tree.control.agents["/root/a"]
            life.wanted_end = "killed"
            tree.children["/root/a"][-1].kill_group()  # as its supervisor's end would
            await life.gone.wait()
            await harness_of(tree).run({}, (life.plan.agent_id,))
            await tree.running.journal.settle()
        records = read_records(tree.running.places)
        heard = [one.agent for one in records
                 if isinstance(one.body, ItemRecorded) and one.body.item_id == name]  # fmt: skip
        assert heard == ["/root/a_2"]
        places, agents = tree.running.places, (life.plan.agent_id, agent_of(tree, "/root/a_2"))
        assert unheard_words(places, agents) == {}


def spoken(name, text):
    return UserInput(input_id=name, parts=(TextInput(text=text),))


def agent_of(tree, path):
    return tree.bodies(AgentSpawned, path)[0].agent_id
