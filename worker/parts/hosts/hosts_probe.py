"""Tries the machines of `[hosts]` tables: starts a node on each, measures, and ends it.

A process of its own, so that no command imports Ray. Standard input: a msgpack list of tables.
Standard output: one JSON object a line.
"""

import os
import statistics
import sys
import time

import msgspec
import trio

from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.delivery.curve_link import Link, connect_link, new_link_keys
from swarm.mailbox.delivery.node_link import ECHO
from swarm.mailbox.protocol.hosts import MachineFound
from swarm.mailbox.protocol.nodes import HostTable, NodeOrder

from .driven_node import NODE_SILENCE_S
from .node_starter import Machine, NodeStarter, NodeUnavailable

_ROUNDS, _ROUND_LIMIT_S = 20, 15.0
_BLOCKS, _BLOCK_BYTES = 64, 256 << 10


def tables_from_input() -> list[HostTable]:
    return msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[HostTable])


async def probe(tables: list[HostTable]) -> None:
    """Print a line for each machine as soon as it is known."""
    from .ray_cluster import RayCluster

    for table in tables:
        cluster = RayCluster(table)
        try:
            await cluster.open()
            for found in await _machines(table, cluster):
                _print(found)
        except NodeUnavailable as error:
            _print(MachineFound(host=table.name, problem=str(error)))
        finally:
            await cluster.close()


async def _machines(table: HostTable, starter: NodeStarter) -> list[MachineFound]:
    found: list[MachineFound] = []
    async with trio.open_nursery() as nursery:

        async def look(machine: Machine) -> None:
            found.append(await try_machine(table, starter, machine))

        for machine in await starter.machines():
            nursery.start_soon(look, machine)
    return found


async def try_machine(table: HostTable, starter: NodeStarter, machine: Machine) -> MachineFound:
    """Start a node, measure the way to it, end it."""
    base = MachineFound(
        host=table.name, machine=machine.name[:6], address=machine.address,
        resources=machine.resources,
    )  # fmt: skip
    keys, began = new_link_keys(), time.monotonic()
    order = NodeOrder(
        run_id=new_uuid7(), name=f"probe-{machine.name[:6]}", epoch=1, address=machine.address,
        driver_key=keys.public, cwd="/", silence_s=NODE_SILENCE_S,
    )  # fmt: skip
    try:
        started = await starter.start(machine, order)
    except NodeUnavailable as error:
        return msgspec.structs.replace(base, problem=str(error))
    card, took_s = started.card, time.monotonic() - began
    try:
        with connect_link(machine.address, card.port, keys, card.public_key) as link:
            times, bytes_per_s = await _measure(link)
    finally:
        await started.stop()
    if not times:
        problem = f"its node cannot be reached at {machine.address}:{card.port}"
        return msgspec.structs.replace(base, problem=problem, card=card)
    return msgspec.structs.replace(
        base,
        card=card,
        round_trip_ms=round(statistics.median(times), 2),
        bytes_per_s=round(bytes_per_s),
        clock_offset_s=round(card.unix_s - time.time() + (time.monotonic() - began - took_s), 2),
    )


async def _measure(link: Link) -> tuple[list[float], float]:
    """Milliseconds of each round trip, and bytes a second to the machine.

    Fewer times than `_ROUNDS` if an answer does not come: then nothing is known of its speed.
    """
    async with trio.open_nursery() as nursery:
        answers, heard = trio.open_memory_channel[None](_BLOCKS)
        link.start(nursery, lambda _message: answers.send_nowait(None))
        times: list[float] = []
        for _ in range(_ROUNDS):
            if (took_s := await _send_and_hear(link, heard, (ECHO, b"probe"), 1)) is None:
                break
            times.append(took_s * 1000)
        took_s = None
        if len(times) == _ROUNDS:
            block = (ECHO, b"probe", os.urandom(_BLOCK_BYTES))
            took_s = await _send_and_hear(link, heard, block, _BLOCKS)
        nursery.cancel_scope.cancel()
    return times, _BLOCKS * _BLOCK_BYTES / took_s if took_s else 0.0


async def _send_and_hear(
    link: Link, heard: "trio.MemoryReceiveChannel[None]", frames: tuple[bytes, ...], count: int
) -> float | None:
    """Send a message so often; seconds until all answers are there, None if they do not come."""
    began = time.monotonic()
    with trio.move_on_after(_ROUND_LIMIT_S):
        for _ in range(count):
            link.send(*frames)
        for _ in range(count):
            await heard.receive()
        return time.monotonic() - began
    return None


def _print(found: MachineFound) -> None:
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    trio.run(probe, tables_from_input())


if __name__ == "__main__":
    main()
