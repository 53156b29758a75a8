"""A whole proxy over real sockets, without a sandbox: routes, refusals and questions."""

import array
import re
import socket
from contextlib import asynccontextmanager

import trio

from support.proxy_testbed import KEY, local, open_proxy_testbed, serving
from swarm.mailbox.contents.credentials import seal_ticket
from swarm.mailbox.protocol.proxy import (
    NetworkBlocked,
    NetworkTicket,
    OpenRoute,
    RouteBlocked,
    decode_route,
    encode_route,
)


@asynccontextmanager
async def open_route(bed, policy, *, asks=False, key=KEY):
    """A route of /root/a: the agent's end of it, and where its listener listens."""
    ticket = NetworkTicket(agent="/root/a", policy=policy, asks=asks)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        trio.socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent,
    ):
        await agent.connect(bed.endpoint)
        order = encode_route(OpenRoute(ticket=seal_ticket(ticket, key), command="curl"))
        fds = array.array("i", [listener.fileno()])
        await agent.sendmsg([order], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        yield agent, listener.getsockname()[1]


async def talk(port, *requests):
    """The proxy's whole answer to each of the requests."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        return [await ask(stream, request) for request in requests]


async def ask(stream, request):
    await stream.send_all(request)
    answer = bytes(await stream.receive_some())
    while answer.startswith(b"HTTP/") and not is_whole(answer):
        answer += await stream.receive_some()
    return answer


def is_whole(answer):
    head, end, body = answer.partition(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head.lower())
    return bool(end) and len(body) >= (int(size[1]) if size else 0)


def get(host, port):
    return f"GET http://{host}:{port}/x HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


async def test_an_allowed_request_reaches_its_server_and_another_is_refused_and_reported():
    with serving() as web:
        async with open_proxy_testbed() as bed:
            bed.names["a.test"] = ["127.0.0.1"]
            async with open_route(bed, local("a.test")) as (agent, port):
                where = web.server_address[1]
                answers = await talk(port, get("a.test", where), get("b.test", where))
                assert b" 200 " in answers[0]
                assert b"403" in answers[1]
                assert b"x-proxy-error: blocked-by-allowlist" in answers[1].lower()
                blocked = decode_route(await agent.recv(4096))
                assert isinstance(blocked, RouteBlocked)
                assert (blocked.target.host, blocked.reason) == ("b.test", "not_allowed")
    assert web.received == ["GET /x"]
    (event,) = [one for one in bed.events if isinstance(one, NetworkBlocked)]
    assert (event.agent, event.target.host) == ("/root/a", "b.test")


async def test_an_approval_holds_for_the_connection_that_asked():
    with serving() as web:
        async with open_proxy_testbed() as bed:
            bed.names["a.test"] = ["127.0.0.1"]
            bed.answers["a.test"] = {"allow": True}
            async with open_route(bed, local(), asks=True) as (_, port):
                request = get("a.test", web.server_address[1])
                answers = await talk(port, request)
                assert b" 200 " in answers[0]
                await talk(port, request)
    assert bed.asked == [("/root/a", "a.test")] * 2


async def test_socks_and_connect_are_tunnels_to_the_same_hosts():
    with serving() as web:
        where = web.server_address[1]
        async with open_proxy_testbed() as bed:
            bed.names["a.test"] = ["127.0.0.1"]
            async with open_route(bed, local("a.test")) as (_, port):
                plain = f"GET /y HTTP/1.1\r\nHost: a.test:{where}\r\n\r\n".encode()
                name = b"\x05\x01\x00\x03\x06a.test" + where.to_bytes(2)
                answers = await talk(port, b"\x05\x01\x00", name, plain)
                assert answers[0] == b"\x05\x00"
                assert answers[1][:2] == b"\x05\x00"
                assert b" 200 " in answers[2]
                refused = name.replace(b"a.test", b"b.test")
                assert (await talk(port, b"\x05\x01\x00", refused))[1][1] == 2
                connect = f"CONNECT a.test:{where} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode()
                answers = await talk(port, connect, plain)
                assert b" 200 " in answers[0]
                assert b" 200 " in answers[1]
    assert web.received == ["GET /y"] * 2


async def test_a_ticket_that_was_not_sealed_by_the_supervisor_opens_no_route():
    async with (
        open_proxy_testbed() as bed,
        open_route(bed, local("*"), key=b"?" * 32) as (agent, _),
    ):
        assert await agent.recv(1) == b""
