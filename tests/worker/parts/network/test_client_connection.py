"""Slow and silent clients hold nothing for long; virtual time, streams in memory."""

from contextlib import contextmanager

import trio
from trio.testing import memory_stream_pair

from swarm.worker.parts.network.client_connection import (
    HEAD_LIMIT_S,
    IDLE_LIMIT_S,
    ClientConnection,
    tunnel,
)
from swarm.worker.parts.network.connector import Unreachable
from swarm.worker.parts.network.http_proxy import HttpProxyConnection
from swarm.worker.parts.network.socks import serve_socks


async def nowhere(request):
    raise Unreachable("nobody there")


async def drip(stream, text, every_s):
    for number in range(len(text)):
        await trio.sleep(every_s)
        try:
            await stream.send_all(text[number : number + 1])
        except trio.BrokenResourceError:
            return


@contextmanager
def client_of(stream):
    """A client of a stream in memory; nothing passes through its socket."""
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        yield ClientConnection(stream, sock=ours)


async def time_until_end(serve):
    started = trio.current_time()
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drip, theirs, b"GET http://a.test/ HTTP/1.1\r\n" * 9, HEAD_LIMIT_S / 10)
        with client_of(ours) as client:
            await serve(client)
        nursery.cancel_scope.cancel()
    return trio.current_time() - started


async def test_a_head_a_byte_a_time_is_cut_off_at_its_deadline(autojump_clock):
    took = await time_until_end(lambda client: HttpProxyConnection(client, nowhere).serve())
    assert took == HEAD_LIMIT_S


async def test_a_silent_socks_client_is_cut_off_at_the_same(autojump_clock):
    started = trio.current_time()
    ours, _theirs = memory_stream_pair()
    with client_of(ours) as client:
        await serve_socks(client, nowhere)
    assert trio.current_time() - started == HEAD_LIMIT_S


async def test_a_tunnel_without_a_byte_ends_and_one_with_some_goes_on(autojump_clock):
    started = trio.current_time()
    ours, their_client = memory_stream_pair()
    server, their_server = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drip, their_client, b"abc", IDLE_LIMIT_S * 0.9)
        nursery.start_soon(drip, their_server, b"", 1)
        with client_of(ours) as client:
            await tunnel(client, server)
        nursery.cancel_scope.cancel()
    assert round(trio.current_time() - started, 3) == round(IDLE_LIMIT_S * 3.7, 3)
