"""Connect to a requested host: check the policy, ask, resolve, check the addresses, connect.

The proxy connects only to an address that it has checked, and resolves a name only once, so a name
server cannot change its answer in between. What cannot be decided in time is refused. An upstream
proxy, where the policy uses one, resolves names itself; addresses that are known here are checked
nevertheless.
"""

import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import trio

from swarm.mailbox.base.host_patterns import is_address
from swarm.mailbox.protocol.proxy import BlockReason, NetworkTarget, NetworkTicket
from swarm.mailbox.protocol.values.base import Value

from .access_decision import Blocked, NetworkRequest, judge_addresses, judge_request
from .client_connection import ClientConnection
from .network_questions import NetworkQuestions
from .upstream_proxy import (
    UpstreamFailed,
    UpstreamProxies,
    UpstreamProxy,
    ask_for_tunnel,
    upstream_for,
)

LOOK_UP_LIMIT_S = 2.0
_CONNECT_LIMIT_S = 10.0  # per address
_MOST_ADDRESSES = 4
_UPSTREAM_LIMIT_S = 30.0  # limit until the upstream proxy has opened a tunnel
_MOST_LOOK_UPS = 64  # limit of threads for a name server that does not answer

Resolve = Callable[[str, int], Awaitable[tuple[str, ...]]]


class NetworkDenied(Exception):
    """The policy refuses the request."""

    def __init__(self, reason: BlockReason) -> None:
        super().__init__(reason)
        self.reason: BlockReason = reason


class Unreachable(Exception):
    """The request is allowed, but the host cannot be reached. The command receives the text."""


class CommandOrigin(Value):
    """The command that a request comes from."""

    ticket: NetworkTicket
    command: str = ""


class ServerConnection(NamedTuple):
    """The connection for a request. `upstream`: it leads to this proxy, which needs the whole
    URL.
    """

    stream: trio.SocketStream
    upstream: UpstreamProxy | None = None


class TlsInterceptor(Protocol):
    """TLS on both ends of an inspected tunnel."""

    async def open(self, client: ClientConnection, host: str) -> ClientConnection:
        """The decrypted connection to the command. Raises ClientGone."""
        ...

    async def secure(self, server: trio.SocketStream, host: str) -> trio.abc.Stream:
        """The TLS connection to the server. Raises Unreachable."""
        ...


class Connector:
    """Shared by all connections of the proxy."""

    def __init__(
        self,
        questions: NetworkQuestions,
        resolve: Resolve,
        upstreams: UpstreamProxies,
        interceptor: TlsInterceptor | None,
    ) -> None:
        """`interceptor`: None if the proxy cannot inspect tunnels."""
        self._questions, self._resolve, self._upstreams = questions, resolve, upstreams
        self._interceptor = interceptor

    def interceptor_for(self, caller: CommandOrigin) -> TlsInterceptor | None:
        """The TLS interceptor in limited mode; None in full mode, where tunnels stay encrypted."""
        return self._interceptor if caller.ticket.policy.mode == "limited" else None

    async def authorize(
        self, caller: CommandOrigin, request: NetworkRequest, approved: set[NetworkTarget]
    ) -> None:
        """Returns if the policy allows the request by its name.

        Args:
            approved: The targets approved for this client connection; an approval is added.

        Raises NetworkDenied.
        """
        target = request.target
        policy = caller.ticket.policy
        judgement = judge_request(request, policy)
        if request.kind == "tunnel" and policy.mode == "limited" and self._interceptor is None:
            judgement = Blocked(reason="mitm_required")
        if isinstance(judgement, Blocked):
            if judgement.reason != "not_allowed" or not caller.ticket.asks:
                raise NetworkDenied(judgement.reason)
            if target not in approved:
                if not await self._questions.ask(caller.ticket.agent, target, caller.command):
                    raise NetworkDenied("not_allowed")
                approved.add(target)

    async def connect(
        self, caller: CommandOrigin, request: NetworkRequest, approved: set[NetworkTarget]
    ) -> ServerConnection:
        """Connect to the requested target; the caller closes the connection. `approved`: see
        `authorize`.

        Raises:
            NetworkDenied, Unreachable.
        """
        await self.authorize(caller, request, approved)
        target, policy = request.target, caller.ticket.policy
        found = await self._look_up(target)
        try:
            upstream = upstream_for(target, self._upstreams) if policy.upstream else None
        except UpstreamFailed as failed:
            raise Unreachable(str(failed)) from failed
        if upstream is None or found:  # addresses that only the upstream knows go unchecked
            judged = judge_addresses(target.host, found, policy)
            if isinstance(judged, Blocked):
                raise NetworkDenied(judged.reason)
            found = judged
        if upstream is None:
            return ServerConnection(trio.SocketStream(await _connect(found, target)))
        return await self._connect_upstream(upstream, target)

    async def _connect_upstream(
        self, upstream: UpstreamProxy, target: NetworkTarget
    ) -> ServerConnection:
        """Connect through the upstream proxy. A person configured its address, so it is not
        checked.
        """
        proxy = NetworkTarget(host=upstream.host, port=upstream.port, protocol="http")
        try:
            sock = await _connect(await self._look_up(proxy), proxy)
        except Unreachable as failed:
            raise Unreachable("the upstream proxy cannot be reached") from failed
        if target.protocol == "http":
            return ServerConnection(trio.SocketStream(sock), upstream)
        try:
            with trio.fail_after(_UPSTREAM_LIMIT_S):
                await ask_for_tunnel(sock, target, upstream)
        except BaseException as error:
            sock.close()
            match error:
                case UpstreamFailed():
                    raise Unreachable(str(error)) from error
                case OSError() | trio.TooSlowError() | trio.BrokenResourceError():
                    raise Unreachable("the upstream proxy does not answer") from error
                case _:
                    raise
        return ServerConnection(trio.SocketStream(sock))

    async def _look_up(self, target: NetworkTarget) -> tuple[str, ...]:
        if is_address(target.host):
            return (target.host,)
        with trio.move_on_after(LOOK_UP_LIMIT_S):
            return await self._resolve(target.host, target.port)
        return ()


class ClientAccess:
    """What one client connection of a command may reach. Approvals hold for this connection."""

    def __init__(
        self,
        connector: Connector,
        caller: CommandOrigin,
        report: Callable[[NetworkRequest, BlockReason], None],
    ) -> None:
        """`report` is called with each refused request; it never waits."""
        self._connector, self._caller, self._report = connector, caller, report
        self._approved: set[NetworkTarget] = set()
        self.interceptor = connector.interceptor_for(caller)

    async def authorize(self, request: NetworkRequest) -> None:
        """See `Connector.authorize`. Raises NetworkDenied."""
        with self._reporting(request):
            await self._connector.authorize(self._caller, request, self._approved)

    async def connect(self, request: NetworkRequest) -> ServerConnection:
        """See `Connector.connect`. Raises NetworkDenied, Unreachable."""
        with self._reporting(request):
            return await self._connector.connect(self._caller, request, self._approved)

    @contextmanager
    def _reporting(self, request: NetworkRequest) -> Iterator[None]:
        try:
            yield
        except NetworkDenied as refused:
            self._report(request, refused.reason)
            raise


def system_resolver() -> Resolve:
    """Resolves names with the system's resolver; an unknown name has no addresses."""
    threads = trio.CapacityLimiter(_MOST_LOOK_UPS)

    def look_up(host: str, port: int) -> tuple[str, ...]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return ()
        return tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return await trio.to_thread.run_sync(
            look_up, host, port, abandon_on_cancel=True, limiter=threads
        )

    return resolve


async def _connect(addresses: tuple[str, ...], target: NetworkTarget) -> trio.socket.SocketType:
    """Try the addresses in order. Raises Unreachable."""
    problem = "its name is not known" if not addresses else "no answer"
    for address in addresses[:_MOST_ADDRESSES]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = trio.socket.socket(family, socket.SOCK_STREAM)
        try:
            with trio.move_on_after(_CONNECT_LIMIT_S):
                await sock.connect((address, target.port))
                return sock
        except OSError as error:
            problem = error.strerror or str(error)
        except BaseException:
            sock.close()
            raise
        sock.close()
    raise Unreachable(f"cannot connect to {target.host}:{target.port}: {problem}")
