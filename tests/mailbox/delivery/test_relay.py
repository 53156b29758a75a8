"""Agents on another machine over a real link: the same promises, only for those started there."""

from contextlib import asynccontextmanager

import pytest
import trio

from swarm.mailbox.delivery.curve_link import connect_link, listen_link, new_link_keys
from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.relay import GATEWAY, SUPERVISOR, FarRelay, NearRelay, is_relayed
from swarm.mailbox.delivery.router import open_router

LIMIT_S = 20
AGENT = b"a/one/1"


class Machines:
    """Two machines in one process: `home` and `there` are the folders of their sockets."""

    def __init__(self, folder):
        self.home, self.there = (f"ipc://{folder}/{name}" for name in ("home", "there"))
        self.near = self.far = None
        self.is_cut = False

    def gate(self, send):
        return lambda *frames: not self.is_cut and send(*frames)


@asynccontextmanager
async def two_machines(folder):
    machines = Machines(folder)
    node, driver = new_link_keys(), new_link_keys()

    def carry(relay):
        return lambda message: is_relayed(message) and relay.take(message)

    async with (
        trio.open_nursery() as nursery,
        listen_link("127.0.0.1", node, driver.public) as (there, port),
    ):
        with connect_link("127.0.0.1", port, driver, node.public) as here:
            machines.far = FarRelay(machines.gate(there.send))
            machines.near = NearRelay(
                machines.gate(here.send), nursery, {SUPERVISOR: machines.home}
            )
            there.start(nursery, carry(machines.far))
            here.start(nursery, carry(machines.near))
            async with machines.far.open_door(SUPERVISOR, machines.there):
                yield machines
            nursery.cancel_scope.cancel()


async def test_mail_of_a_far_agent_arrives_in_order_and_once_each_way(tmp_path):
    with trio.fail_after(LIMIT_S):
        async with open_router(f"ipc://{tmp_path}/home") as supervisor, two_machines(tmp_path) as m:
            supervisor.admit(AGENT, epoch=1)
            m.near.admit(AGENT)
            async with open_dealer(m.there, AGENT, epoch=1) as agent:
                for number in range(200):
                    await agent.post(f"{number}".encode())
                    await supervisor.post(AGENT, f"{-number}".encode())
                    await trio.lowlevel.checkpoint()
                    if number % 2:
                        for end in (supervisor, agent):
                            for _ in range(2):
                                got = await end.receive()
                                end.acknowledge(got)
                                expected = f"{got.seq - 1}" if end is supervisor else None
                                assert expected is None or got.body.decode() == expected
                await agent.flush()


async def test_a_link_that_is_cut_for_a_while_loses_and_doubles_nothing(tmp_path):
    with trio.fail_after(LIMIT_S):
        async with open_router(f"ipc://{tmp_path}/home") as supervisor, two_machines(tmp_path) as m:
            supervisor.admit(AGENT, epoch=1)
            m.near.admit(AGENT)
            async with open_dealer(m.there, AGENT, epoch=1) as agent:
                got = []
                for number in range(30):
                    m.is_cut = 10 <= number < 20
                    await agent.post(f"{number}".encode())
                m.is_cut = False
                while len(got) < 30:
                    message = await supervisor.receive()
                    supervisor.acknowledge(message)
                    got.append(int(message.body))
                await agent.flush()
    assert got == list(range(30))


@pytest.mark.parametrize("identity", [b"a/other/1", b"g/gateway/1"])
async def test_a_far_machine_speaks_for_nobody_but_its_own_agents(tmp_path, identity):
    with trio.fail_after(LIMIT_S):
        async with open_router(f"ipc://{tmp_path}/home") as supervisor, two_machines(tmp_path) as m:
            supervisor.admit(identity, epoch=1)
            supervisor.admit(AGENT, epoch=1)
            m.near.admit(AGENT)
            async with (
                open_dealer(m.there, identity, epoch=1) as stranger,
                open_dealer(m.there, AGENT, epoch=1) as agent,
            ):
                await stranger.post(b"I am another")
                await agent.post(b"I am myself")
                message = await supervisor.receive()
                assert (message.peer, message.body) == (AGENT, b"I am myself")
                with trio.move_on_after(0.5):
                    await supervisor.receive()
                    pytest.fail("a stranger was heard")


async def test_what_has_moved_is_found_at_its_new_place(tmp_path):
    first, second = f"ipc://{tmp_path}/g1", f"ipc://{tmp_path}/g2"
    with trio.fail_after(LIMIT_S):
        async with two_machines(tmp_path) as m, m.far.open_door(GATEWAY, f"ipc://{tmp_path}/door"):
            m.near.move(GATEWAY, first)
            m.near.admit(AGENT)
            for endpoint in (first, second):
                m.near.move(GATEWAY, endpoint)
                async with (
                    open_router(endpoint) as gateway,
                    open_dealer(f"ipc://{tmp_path}/door", AGENT, epoch=1) as agent,
                ):
                    gateway.admit(AGENT, epoch=1)
                    await agent.post(endpoint.encode())
                    message = await gateway.receive()
                    gateway.acknowledge(message)
                    assert message.body == endpoint.encode()
                    await agent.flush()
