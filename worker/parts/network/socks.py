"""SOCKS5 server: no authentication, CONNECT only.

Source: RFC 1928. UDP ASSOCIATE and BIND are refused (reply 7).
"""

from functools import partial
from ipaddress import ip_address

import trio

from swarm.mailbox.base.host_patterns import InvalidHost, normalize_host
from swarm.mailbox.protocol.proxy import NetworkTarget

from .access_decision import NetworkRequest
from .client_connection import HEAD_LIMIT_S, ClientConnection, tunnel
from .connector import ClientAccess, NetworkDenied, Unreachable

VERSION = 5
_NO_AUTHENTICATION, _NONE_ACCEPTED = 0, 0xFF
_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_DONE, _FAILED, _NOT_ALLOWED, _UNREACHABLE, _BAD_COMMAND, _BAD_ADDRESS = 0, 1, 2, 4, 7, 8


async def serve_socks(client: ClientConnection, access: ClientAccess) -> None:
    """Serve one SOCKS5 client to its end. Raises ClientGone."""
    target = None
    with trio.move_on_after(HEAD_LIMIT_S):
        target = await _read_request(client)
    if target is None:
        return
    wanted = NetworkRequest(target=target, kind="socks")
    try:
        server = (await client.run_while_connected(partial(access.connect, wanted))).stream
    except NetworkDenied:
        await client.send(_reply(_NOT_ALLOWED))
        return
    except Unreachable:
        await client.send(_reply(_UNREACHABLE))
        return
    async with server:
        await client.send(_reply(_DONE))
        await tunnel(client, server)


async def _read_request(client: ClientConnection) -> NetworkTarget | None:
    """The requested target; None if the client was answered with a refusal."""
    version, count = await client.receive_exactly(2)
    methods = await client.receive_exactly(count)
    if version != VERSION or _NO_AUTHENTICATION not in methods:
        await client.send(bytes((VERSION, _NONE_ACCEPTED)))
        return None
    await client.send(bytes((VERSION, _NO_AUTHENTICATION)))
    version, command, reserved, kind = await client.receive_exactly(4)
    if version != VERSION or reserved != 0:
        await client.send(_reply(_FAILED))
        return None
    if command != _CONNECT:
        await client.send(_reply(_BAD_COMMAND))
        return None
    try:
        host = await _read_host(client, kind)
    except InvalidHost:
        await client.send(_reply(_BAD_ADDRESS))
        return None
    port = int.from_bytes(await client.receive_exactly(2))
    return NetworkTarget(host=host, port=port, protocol="socks5_tcp")


async def _read_host(client: ClientConnection, kind: int) -> str:
    """Raises InvalidHost, ClientGone."""
    if kind == _IPV4:
        return str(ip_address(await client.receive_exactly(4)))
    if kind == _IPV6:
        return str(ip_address(await client.receive_exactly(16)))
    if kind != _NAME:
        raise InvalidHost("no such kind of address")
    (size,) = await client.receive_exactly(1)
    name = await client.receive_exactly(size)
    return normalize_host(name.decode("ascii", "replace"))


def _reply(code: int) -> bytes:
    return bytes((VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0))
