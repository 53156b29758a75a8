"""The process that drives nodes; a node is a real process here, which no Ray has started."""

import os
import signal
import subprocess
import sys
from base64 import b64decode, b64encode

import msgspec
import pytest
import trio

from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.hosts import (
    CopyShipped,
    DrainNode,
    HostUnusable,
    NodeJoined,
    NodeLost,
    NodeUsage,
    RemoteRefused,
    ShipCopy,
    StartRemote,
    decode_hosts_event,
    encode_hosts_op,
)
from swarm.mailbox.protocol.nodes import (
    HostTable,
    NodeCard,
    decode_node_card,
    encode_node_value,
)
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.spec import HostsSpec
from swarm.supervisor.base.version import VERSION
from swarm.worker.parts.hosts import hosts_process
from swarm.worker.parts.hosts.hosts_process import HostsProcess
from swarm.worker.parts.hosts.node_starter import Machine, NodeUnavailable, check_card

LIMIT_S = 30
PROGRAM = [sys.executable, "-P", "-m", "swarm.supervisor.parts.node.node_process"]
HERE = b"o/run/1"
CARD = NodeCard(
    port=1, public_key=b"", pid=1, version="1", python="3", system="Linux", sandbox="bwrap"
)


class LocalNode:
    """Implements `StartedNode`."""

    def __init__(self, process, card):
        self.process, self.card = process, card

    async def wait_ended(self):
        await self.process.wait()
        return "its process has ended"

    async def stop(self):
        await self.process.stdin.aclose()
        await self.process.wait()


class LocalStarter:
    """Implements `NodeStarter`: the only machine is this one."""

    def __init__(self, folder, *, problem=""):
        self.environment = {
            **os.environ, "SWARM_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder),
        }  # fmt: skip
        self.problem, self.nodes, self.is_open = problem, [], False

    async def open(self):
        if self.problem:
            raise NodeUnavailable(self.problem)
        self.is_open = True

    async def close(self):
        self.is_open = False

    async def machines(self):
        return (Machine("0123456789", "127.0.0.1", {"CPU": 2.0}),)

    async def start(self, _machine, order):
        process = await trio.lowlevel.open_process(
            PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment
        )
        await process.stdin.send_all(b64encode(encode_node_value(order)) + b"\n")
        said = b""
        while not said.endswith(b"\n"):
            part = await process.stdout.receive_some()
            assert part, "the node ended"
            said += part
        self.nodes.append(LocalNode(process, decode_node_card(b64decode(said))))
        return self.nodes[-1]


class Driven:
    """A driver over an in-memory mailbox, and what it says."""

    def __init__(self, server, mailbox, starter, tmp_path):
        self.server, self.starter = server, starter
        self.spec = HostsSpec(
            run_id="01a1fc24-7204-710f-b302-2343189d0946", epoch=1, endpoint="ipc:///none",
            identity=HERE, secret=b"", hosts=(HostTable(name="lab", ray="auto", slots=3),),
            copies=str(tmp_path / "copies"), cwd="/", gateway_endpoint="ipc:///none",
            version=VERSION,
        )  # fmt: skip
        self.process = HostsProcess(self.spec, mailbox, lambda _table: starter, umask=0o027)

    async def hear(self, kind):
        """The next event of this kind."""
        while True:
            message = await self.server.receive()
            self.server.acknowledge(message)
            event = decode_hosts_event(message.body)
            if isinstance(event, kind):
                return event

    async def order(self, op):
        await self.server.post(HERE, encode_hosts_op(op))


@pytest.fixture
async def driven(tmp_path, nursery):
    async with open_pair_server(epoch=1) as server:
        server.admit(HERE, epoch=1)
        mailbox = server.connect(HERE, epoch=1)
        made = Driven(server, mailbox, LocalStarter(tmp_path / "node"), tmp_path)
        yield made


async def test_a_node_joins_tells_how_it_does_and_leaves_nothing_at_the_end(
    driven, nursery, tmp_path
):
    nursery.start_soon(driven.process.run)
    with trio.fail_after(LIMIT_S):
        joined = await driven.hear(NodeJoined)
        assert joined.node.name == "lab/127.0.0.1-012345"
        assert (joined.node.slots, joined.node.resources) == (3, {"CPU": 2.0})
        used = await driven.hear(NodeUsage)
        assert used.free_disk_bytes > 0
        await driven.order(Shutdown(grace_s=1))
        assert (await driven.hear(NodeLost)).reason.endswith("has left")
        (node,) = driven.starter.nodes
        assert await node.process.wait() == 0
    assert [one.name for one in (tmp_path / "node/state/nodes").iterdir()] == ["lock"]


async def test_a_killed_node_is_told_of_and_started_again(driven, nursery):
    nursery.start_soon(driven.process.run)
    with trio.fail_after(LIMIT_S):
        await driven.hear(NodeJoined)
        driven.starter.nodes[0].process.send_signal(signal.SIGKILL)
        assert "its process has ended" in (await driven.hear(NodeLost)).reason
        await driven.hear(NodeJoined)
        await driven.order(Shutdown(grace_s=1))
        await driven.hear(NodeLost)
    assert len(driven.starter.nodes) == 2


async def test_orders_for_a_node_that_is_lost_are_refused_as_such(driven, nursery):
    nursery.start_soon(driven.process.run)
    with trio.fail_after(LIMIT_S):
        await driven.hear(NodeJoined)
        await driven.order(StartRemote(request=1, node="gone", spec=b"", title="", identity=b""))
        assert (await driven.hear(RemoteRefused)).is_lost
        await driven.order(ShipCopy(request=2, node="gone", agent_id="a", base=1, roots=1))
        assert (await driven.hear(CopyShipped)).is_lost
        await driven.order(DrainNode(node="gone"))
        await driven.order(Shutdown(grace_s=1))
        await driven.hear(NodeLost)


async def test_a_process_that_is_not_an_agents_is_not_started_there(driven, nursery):
    nursery.start_soon(driven.process.run)
    with trio.fail_after(LIMIT_S):
        name = (await driven.hear(NodeJoined)).node.name
        await driven.order(StartRemote(request=1, node=name, spec=b"\x80", title="", identity=b""))
        refused = await driven.hear(RemoteRefused)
        assert not refused.is_lost
        await driven.order(Shutdown(grace_s=1))
        await driven.hear(NodeLost)


async def test_a_host_that_cannot_be_had_is_said(driven, nursery):
    driven.starter.problem = "no Ray cluster at auto"
    nursery.start_soon(driven.process.run)
    with trio.fail_after(LIMIT_S):
        said = await driven.hear(HostUnusable)
        assert (said.host, said.reason) == ("lab", "no Ray cluster at auto")
        await driven.order(Shutdown(grace_s=1))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "0"}, "install the same version"),
        ({"copies": "no overlay", "sandbox": "none"}, "no overlay"),
    ],
)
def test_a_machine_on_which_no_agent_could_work_is_not_used(changes, words):
    check_card(CARD, "1")
    with pytest.raises(NodeUnavailable, match=words):
        check_card(msgspec.structs.replace(CARD, **changes), "1")


async def test_a_cluster_that_is_not_there_yet_is_tried_again_and_said_once(
    driven, nursery, monkeypatch
):
    monkeypatch.setattr(hosts_process, "_RETRY_S", 0.01)
    tries, opened = [], driven.starter.open

    async def open_later():
        tries.append(None)
        driven.starter.problem = "no Ray cluster" if len(tries) < 4 else ""
        await opened()

    monkeypatch.setattr(driven.starter, "open", open_later)
    nursery.start_soon(driven.process.run)
    with trio.fail_after(LIMIT_S):
        assert (await driven.hear(HostUnusable)).reason == "no Ray cluster"
        assert isinstance(await driven.hear(HostUnusable | NodeJoined), NodeJoined)
        await driven.order(Shutdown(grace_s=1))
        await driven.hear(NodeLost)
    assert len(tries) == 4


async def test_a_drained_machine_is_left_and_gets_no_node_again(driven, nursery, monkeypatch):
    monkeypatch.setattr(hosts_process, "_RETRY_S", 0.0)
    monkeypatch.setattr(hosts_process, "LOOK_S", 0.01)
    nursery.start_soon(driven.process.run)
    with trio.fail_after(LIMIT_S):
        await driven.order(DrainNode(node=(await driven.hear(NodeJoined)).node.name))
        await driven.hear(NodeLost)
        with trio.move_on_after(1.0):  # a start takes a third of that
            await driven.hear(NodeJoined)
            pytest.fail("a node was started again")
        await driven.order(Shutdown(grace_s=1))


async def test_a_host_is_unusable_once_all_of_its_machines_are_given_up(
    driven, nursery, monkeypatch
):
    monkeypatch.setattr(hosts_process, "_RETRY_S", 0.0)

    async def fail(_machine, _order):
        raise NodeUnavailable("it has swarm 0.0.1")

    monkeypatch.setattr(driven.starter, "start", fail)
    nursery.start_soon(driven.process.run)
    with trio.fail_after(LIMIT_S):
        said = await driven.hear(HostUnusable)
        assert said.reason == "none of its machines can be used: it has swarm 0.0.1"
        await driven.order(Shutdown(grace_s=1))


async def test_a_node_that_takes_long_to_start_is_told_of(driven, nursery, monkeypatch):
    monkeypatch.setattr(hosts_process, "_SLOW_START_S", 0.01)
    nursery.start_soon(driven.process.run)
    with trio.fail_after(LIMIT_S):
        said = await driven.hear(Warned)
        assert said.message == "lab/127.0.0.1-012345: it starts slowly; agents wait for it"
        await driven.hear(NodeJoined)
        await driven.order(Shutdown(grace_s=1))
        await driven.hear(NodeLost)
