"""The link between two machines: only the two ends that know each other speak, and nobody reads."""

from contextlib import asynccontextmanager, contextmanager
from functools import partial

import pytest
import trio
import trio.lowlevel

from swarm.mailbox.delivery.curve_link import connect_link, listen_link, new_link_keys

LIMIT_S = 10


async def until(found, wanted):
    while len(found) < wanted:  # noqa: ASYNC110 - a list tells nobody
        await trio.sleep(0.01)


@asynccontextmanager
async def node_listening(keys, allowed):
    """A node, its port and what it hears."""
    heard: list[list[bytes]] = []
    async with (
        trio.open_nursery() as nursery,
        listen_link("127.0.0.1", keys, allowed) as (
            link,
            port,
        ),
    ):
        link.start(nursery, heard.append)
        yield link, port, heard
        nursery.cancel_scope.cancel()


async def test_two_ends_that_know_each_other_speak():
    node, driver = new_link_keys(), new_link_keys()
    at_driver: list[list[bytes]] = []
    with trio.fail_after(LIMIT_S):
        async with (
            trio.open_nursery() as nursery,
            node_listening(node, driver.public) as (there, port, at_node),
        ):
            with connect_link("127.0.0.1", port, driver, node.public) as here:
                here.start(nursery, at_driver.append)
                here.send(b"m", b"one")
                await until(at_node, 1)
                there.send(b"m", b"two")
                await until(at_driver, 1)
                nursery.cancel_scope.cancel()
    assert (at_node, at_driver) == ([[b"m", b"one"]], [[b"m", b"two"]])


@pytest.mark.parametrize("wrong", ["client", "server"])
async def test_an_end_with_another_key_is_not_heard(wrong):
    node, driver, other = new_link_keys(), new_link_keys(), new_link_keys()
    with trio.fail_after(LIMIT_S):
        async with node_listening(node, driver.public) as (_, port, heard):
            keys = other if wrong == "client" else driver
            server = other.public if wrong == "server" else node.public
            with (
                connect_link("127.0.0.1", port, keys, server) as stranger,
                connect_link("127.0.0.1", port, driver, node.public) as here,
            ):
                stranger.send(b"m", b"secret")
                here.send(b"m", b"ours")
                await until(heard, 1)
                here.send(b"m", b"again")
                await until(heard, 2)
    assert heard == [[b"m", b"ours"], [b"m", b"again"]]


@contextmanager
def tapped(passed):
    """Carries one connection on, and keeps what passes."""

    async def tap(port, stream):
        async with (
            await trio.open_tcp_stream("127.0.0.1", port) as onward,
            trio.open_nursery() as nursery,
        ):

            async def pump(source, target):
                async for chunk in source:
                    passed.extend(chunk)
                    await target.send_all(chunk)
                nursery.cancel_scope.cancel()

            nursery.start_soon(pump, stream, onward)
            nursery.start_soon(pump, onward, stream)

    yield tap


async def test_what_crosses_the_wire_cannot_be_read_and_a_lost_connection_is_made_again():
    node, driver = new_link_keys(), new_link_keys()
    passed = bytearray()
    with tapped(passed) as tap, trio.fail_after(LIMIT_S):
        async with (
            node_listening(node, driver.public) as (_, port, heard),
            trio.open_nursery() as nursery,
        ):
            (listener,) = await nursery.start(
                partial(trio.serve_tcp, host="127.0.0.1"), lambda stream: tap(port, stream), 0
            )
            address = listener.socket.getsockname()[1]
            with connect_link("127.0.0.1", address, driver, node.public) as here:
                here.send(b"m", b"a word that nobody else reads")
                await until(heard, 1)
                nursery.cancel_scope.cancel()
                await trio.lowlevel.checkpoint()
    assert b"nobody else" not in passed
    assert len(passed) > 100
