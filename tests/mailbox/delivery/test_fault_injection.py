"""A disturbed wire loses, doubles and delays frames; messages come once and in order."""

import random

import pytest
import trio

from swarm.mailbox.delivery import endpoint, fault_injection
from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.router import open_router

MESSAGES = 120


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a temporary folder's path may be longer than a socket's
    yield "ipc://mail"
    fault_injection.inject_faults(None)


def test_nothing_but_code_can_disturb_a_wire(monkeypatch):
    def carry(peer: bytes, frame: bytes) -> bool:
        return True

    for name in ("SWARM_WIRE", "SWARM_CHAOS", "CHAOS_SEED"):
        monkeypatch.setenv(name, "1")
    assert fault_injection.with_injected_faults(carry, None) is carry


async def test_a_disturbed_wire_does_what_it_is_told_to_each_frame(autojump_clock):
    fates = iter([(), (0.0, 0.0), (2.0,), (0.0,)])
    fault_injection.inject_faults(lambda: next(fates))
    carried = []

    def carry(peer: bytes, frame: bytes) -> bool:
        carried.append(frame)
        return True

    try:
        async with trio.open_nursery() as nursery:
            over = fault_injection.with_injected_faults(carry, nursery)
            assert [over(b"peer", frame) for frame in (b"lost", b"twice", b"late", b"sound")] == [
                True, True, True, True,
            ]  # fmt: skip
    finally:
        fault_injection.inject_faults(None)
    assert carried == [b"twice", b"twice", b"sound", b"late"]


async def test_messages_survive_a_wire_that_loses_a_fifth_doubles_and_delays(address, monkeypatch):
    monkeypatch.setattr(endpoint, "PROBE_INTERVAL_S", 0.05)
    lots = random.Random(7)
    fates = ((), (0.0, 0.01), (0.02,), (0.0,), (0.0,))
    fault_injection.inject_faults(lambda: lots.choice(fates))
    heard: dict[str, list[bytes]] = {"server": [], "scout": []}
    with trio.fail_after(30):
        async with (
            open_router(address) as server,
            open_dealer(address, b"scout", epoch=2) as mailbox,
            trio.open_nursery() as nursery,
        ):
            server.admit(b"scout", epoch=2)

            async def listen(name, end):
                while len(heard[name]) < MESSAGES:
                    message = await end.receive()
                    heard[name].append(message.body)
                    end.acknowledge(message)

            nursery.start_soon(listen, "server", server)
            nursery.start_soon(listen, "scout", mailbox)
            for number in range(MESSAGES):
                await mailbox.post(b"up %d" % number)
                await server.post(b"scout", b"down %d" % number)
    assert heard["server"] == [b"up %d" % number for number in range(MESSAGES)]
    assert heard["scout"] == [b"down %d" % number for number in range(MESSAGES)]
