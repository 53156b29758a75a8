"""Starts on other machines, in virtual time: the driver's answers are given by hand."""

from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
import trio

from support.agent_records import plan_of
from support.node_facts import facts, usage
from swarm.mailbox.protocol.hosts import (
    CopyShipped,
    DrainNode,
    FetchLayers,
    LayersStored,
    PrepareRemote,
    RemoteEnded,
    RemotePrepared,
    RemoteRefused,
    RemoteStarted,
    ShipCopy,
    SignalRemote,
    StartRemote,
)
from swarm.mailbox.protocol.nodes import HostTable
from swarm.supervisor.parts.copies.copy_folder import AgentCopy
from swarm.supervisor.parts.hosts.placement.remote_hosts import RemoteHosts
from swarm.supervisor.processes.process_types import DiedBeforeHello, SpawnError
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC

LAB = HostTable(name="lab", ray="auto", ship=("deps",))


def plan(name="a", **more):
    return msgspec.structs.replace(plan_of(f"/root/{name}", agent_id=name), host="lab", **more)


def copy(name="a"):
    return AgentCopy(agent_id=name, path=f"/root/{name}", base=1, roots=(), cwd="/")


def spec(name="a"):
    return msgspec.structs.replace(FAKE_AGENT_SPEC, agent_id=name, path=f"/root/{name}")


class Driver:
    """Answers orders as they come; `refuses` and `loses` are names of nodes."""

    def __init__(self, hosts):
        self.hosts, self.seen, self.pids = hosts, [], 100
        self.loses, self.fails, self.breaks = set(), set(), set()

    async def run(self):
        async for op in self.hosts.orders:
            self.seen.append(op)
            match op:
                case ShipCopy():
                    lost = op.node in self.loses
                    self.hosts.on_reply(
                        CopyShipped(request=op.request, problem="lost" * lost, is_lost=lost)
                    )
                case PrepareRemote():
                    self.hosts.on_prepared(
                        RemotePrepared(
                            request=op.order.request, node=op.node,
                            problem="no lock" * (op.node in self.fails),
                        )
                    )  # fmt: skip
                case StartRemote() if op.node in self.breaks:
                    refused = RemoteRefused(
                        request=op.request, reason="not whole there", is_lost=True,
                        broken_node=op.node,
                    )  # fmt: skip
                    assert self.hosts.on_refused(refused) == "not whole there"
                case StartRemote():
                    self.pids += 1
                    self.hosts.on_reply(
                        RemoteStarted(request=op.request, node=op.node, pid=self.pids)
                    )
                case _:
                    continue

    def of(self, kind):
        return [op for op in self.seen if isinstance(op, kind)]


@pytest.fixture
async def lab(nursery):
    hosts = RemoteHosts((LAB,))
    driver = Driver(hosts)
    nursery.start_soon(driver.run)
    return hosts, driver


async def start(hosts, name="a", **more):
    async with hosts.place(plan(name, **more), copy(name), ()) as place:
        return place.node, await place.start(spec(name), title=name)


async def test_of_machines_that_are_equally_full_the_one_with_more_memory_gets_the_agent(lab):
    hosts, _ = lab
    for name, memory in (("lab/a", 1000), ("lab/b", 2000)):
        hosts.on_joined(facts(name, slots=2))
        hosts.on_usage(usage(node=name, memory=memory))
    assert [(await start(hosts, f"x{number}"))[0] for number in range(3)] == [
        "lab/b", "lab/a", "lab/b",
    ]  # fmt: skip


async def test_a_machine_on_which_the_project_is_broken_is_drained_and_another_one_is_tried(lab):
    hosts, driver = lab
    hosts.on_joined(facts("lab/a"))
    driver.breaks.add("lab/a")
    with pytest.raises(DiedBeforeHello, match="not whole there"):
        await start(hosts)
    assert "not whole" in hosts.nodes["lab/a"].why_drained
    hosts.on_joined(facts("lab/b"))
    assert (await start(hosts))[0] == "lab/b"


async def test_the_machine_with_the_most_room_gets_the_agent(lab):
    hosts, _ = lab
    hosts.on_joined(facts("lab/a", slots=2))
    hosts.on_joined(facts("lab/b", slots=4))
    nodes = [(await start(hosts, f"x{number}"))[0] for number in range(6)]
    assert sorted(nodes) == ["lab/a"] * 2 + ["lab/b"] * 4


async def test_an_agent_waits_for_room_and_gets_the_slot_that_becomes_free(lab, nursery):
    hosts, _ = lab
    hosts.on_joined(facts("lab/a", slots=1))
    _, child = await start(hosts, "one")
    begun = []

    async def second():
        begun.append((await start(hosts, "two"))[0])

    nursery.start_soon(second)
    await trio.testing.wait_all_tasks_blocked()
    assert begun == []
    hosts.on_ended(RemoteEnded(node="lab/a", pid=child.pid, exit_code=0, reason="done"))
    await trio.testing.wait_all_tasks_blocked()
    assert begun == ["lab/a"]


async def test_an_agent_goes_back_to_the_machine_that_has_its_files(lab):
    hosts, _ = lab
    hosts.on_joined(facts("lab/a", slots=1))
    _, child = await start(hosts, "one")
    hosts.on_joined(facts("lab/b", slots=9))
    hosts.on_ended(RemoteEnded(node="lab/a", pid=child.pid, signal=9, reason="killed"))
    assert (await start(hosts, "one"))[0] == "lab/a"
    hosts.on_lost("lab/a", "gone")
    assert (await start(hosts, "one"))[0] == "lab/b"


async def test_a_lost_machine_ends_its_processes_and_their_slots_are_no_ones(lab):
    hosts, driver = lab
    hosts.on_joined(facts("lab/a", slots=1))
    _, child = await start(hosts, "one")
    assert hosts.on_lost("lab/a", "the machine has said nothing")
    assert (await child.wait_ended()).reason == "the machine has said nothing"
    assert not hosts.on_lost("lab/a", "again")
    child.kill_group()
    await trio.testing.wait_all_tasks_blocked()
    assert driver.of(SignalRemote) == []


async def test_a_start_on_a_machine_that_is_lost_meanwhile_may_be_tried_again(lab):
    hosts, driver = lab
    hosts.on_joined(facts("lab/a"))
    driver.loses = {"lab/a"}
    with pytest.raises(DiedBeforeHello, match="gets no copy on lab/a: lost"):
        await start(hosts)
    assert hosts.nodes["lab/a"].taken == 0


async def test_without_any_machine_the_reason_is_said(autojump_clock, lab):
    hosts, _ = lab
    with pytest.raises(SpawnError, match="none of its machines answers"):
        await start(hosts)
    hosts.on_joined(facts("lab/a"))
    with pytest.raises(SpawnError, match="none of its machines has gpu 1"):
        await start(hosts, resources={"gpu": 1.0})
    hosts.on_unusable("lab", "no Ray cluster at auto")
    with pytest.raises(SpawnError, match="cannot start on lab: no Ray cluster at auto"):
        await start(hosts)


async def test_a_process_whose_start_nobody_waits_for_any_more_is_killed(lab):
    hosts, driver = lab
    hosts.on_joined(facts("lab/a"))
    hosts.on_reply(RemoteStarted(request=77, node="lab/a", pid=5))
    hosts.on_reply(RemoteRefused(request=78, reason="no"))
    await trio.testing.wait_all_tasks_blocked()
    assert [(op.pid, op.number) for op in driver.of(SignalRemote)] == [(5, 0)]


async def test_a_process_that_ends_at_once_frees_its_slot(lab):
    hosts, _ = lab
    hosts.on_joined(facts("lab/a", slots=1))
    async with hosts.place(plan(), copy(), ()) as place:
        child = await place.start(spec(), title="a")
        hosts.on_ended(RemoteEnded(node="lab/a", pid=child.pid, exit_code=1, reason="bad"))
    assert hosts.nodes["lab/a"].taken == 0


async def test_a_drained_machine_is_ended_when_its_last_agent_has_left(lab):
    hosts, driver = lab
    hosts.on_joined(facts("lab/a", slots=1))
    _, child = await start(hosts)
    assert [hosts.on_usage(usage(disk=1)) for _ in range(4)][-1]
    await trio.testing.wait_all_tasks_blocked()
    assert driver.of(DrainNode) == []
    hosts.on_ended(RemoteEnded(node="lab/a", pid=child.pid, exit_code=0, reason="done"))
    await trio.testing.wait_all_tasks_blocked()
    assert driver.of(DrainNode) == [DrainNode(node="lab/a")]


async def test_what_an_agent_changed_is_asked_for_once_at_a_time(lab, nursery):
    hosts, driver = lab
    hosts.on_joined(facts("lab/a"))
    await start(hosts, "one")
    done = []

    async def bring(number):
        await hosts.bring_layers("one")
        done.append(number)

    for number in range(2):
        nursery.start_soon(partial(bring, number))
    await trio.testing.wait_all_tasks_blocked()
    assert len(driver.of(FetchLayers)) == 1
    hosts.on_stored(LayersStored(agent_id="one"))
    await trio.testing.wait_all_tasks_blocked()
    assert len(driver.of(FetchLayers)) == 2  # what the second asked for may be newer
    assert len(done) == 1
    hosts.on_lost("lab/a", "gone")
    await trio.testing.wait_all_tasks_blocked()
    assert len(done) == 2
    await hosts.bring_layers("somebody who works here")


async def test_an_answer_that_never_comes_keeps_nobody_waiting_afterwards(autojump_clock, lab):
    hosts, driver = lab
    hosts.on_joined(facts("lab/a"))
    await start(hosts, "one")
    began = trio.current_time()
    await hosts.bring_layers("one")
    assert trio.current_time() - began == 120
    await hosts.bring_layers("one")
    assert len(driver.of(FetchLayers)) == 2  # it asked again, and waited for nothing else


async def test_a_machine_that_was_drained_gets_no_agents_when_it_joins_again(lab):
    hosts, driver = lab
    hosts.on_joined(facts("lab/a"))
    assert hosts.drain(hosts.nodes["lab/a"], "a person asked for it")
    assert not hosts.drain(hosts.nodes["lab/a"], "again")
    hosts.on_lost("lab/a", "the process that drives it has ended")
    hosts.on_joined(facts("lab/a"))
    assert hosts.nodes["lab/a"].why_drained == "a person asked for it"
    await trio.testing.wait_all_tasks_blocked()
    assert [op.node for op in driver.of(DrainNode)] == ["lab/a", "lab/a"]


async def test_a_cluster_that_is_there_later_can_be_used(lab):
    hosts, _ = lab
    hosts.on_unusable("lab", "no Ray cluster")
    with pytest.raises(SpawnError, match="no Ray cluster"):
        await start(hosts)
    hosts.on_joined(facts("lab/a"))
    assert (await start(hosts))[0] == "lab/a"


async def test_nothing_is_started_any_more_once_the_driver_was_given_up(lab):
    hosts, _ = lab
    hosts.lose_all("it keeps ending", for_good=True)
    hosts.on_joined(facts("lab/a"))
    with pytest.raises(SpawnError, match="keeps ending"):
        await start(hosts)


@pytest.fixture
async def prepared(nursery):
    hosts = RemoteHosts((msgspec.structs.replace(LAB, prepare=("npm ci", "make deps")),))
    driver = Driver(hosts)
    nursery.start_soon(driver.run)
    return hosts, driver


async def test_commands_prepare_each_machine_once_in_its_turn(prepared):
    hosts, driver = prepared
    turns = []

    @asynccontextmanager
    async def hold(work):
        turns.append((work.machine, work.agent, work.head, work.command))
        yield
        turns.append("over")

    hosts.use_turns(hold)
    hosts.on_joined(facts("lab/a", slots=2))
    async with trio.open_nursery() as starts:
        for name in ("one", "two"):
            starts.start_soon(start, hosts, name)
    (order,) = driver.of(PrepareRemote)
    assert order.order.commands == ("npm ci", "make deps")
    (first, over) = turns
    assert first[0] == "lab/a"
    assert first[2:] == ("prepare", "npm ci; make deps")
    assert over == "over"
    assert driver.seen.index(order) < driver.seen.index(driver.of(StartRemote)[0])


async def test_where_commands_fail_no_agent_starts_and_the_next_machine_is_taken(prepared):
    hosts, driver = prepared
    driver.fails.add("lab/a")
    hosts.on_joined(facts("lab/a", slots=9))
    with pytest.raises(DiedBeforeHello, match="no lock"):
        await start(hosts)
    with pytest.raises(SpawnError, match="lab/a: prepare failed there: no lock"):
        await start(hosts)
    hosts.on_joined(facts("lab/b"))
    assert (await start(hosts))[0] == "lab/b"
    assert driver.of(StartRemote)[0].node == "lab/b"
