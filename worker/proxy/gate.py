"""From a wish to a connection: judge, perhaps ask, look up, judge again, connect.

Guards: the address that is connected to is one that was judged; nothing is looked up twice, so a
name server cannot change its mind in between. Whatever cannot be decided in time is refused.
"""

import socket
from collections.abc import Awaitable, Callable

import trio

from swarm.mailbox.hosts import is_address
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.proxy import BlockReason, Target, Ticket

from .decide import Blocked, Wish, judge_addresses, judge_wish
from .questions import Questions

LOOK_UP_LIMIT_S = 2.0
_CONNECT_LIMIT_S = 10.0  # an address
_MOST_ADDRESSES = 4
_MOST_LOOK_UPS = 64  # threads; a name server that is silent must not make more

Resolve = Callable[[str, int], Awaitable[tuple[str, ...]]]


class Refused(Exception):
    """The policy does not allow it."""

    def __init__(self, reason: BlockReason) -> None:
        super().__init__(reason)
        self.reason: BlockReason = reason


class Unreachable(Exception):
    """Allowed, but nobody answers there. The text is for the command."""


class Caller(Value):
    """Whose command it is that wants something."""

    ticket: Ticket
    command: str = ""


class Gate:
    """Shared by all connections of the proxy."""

    def __init__(self, questions: Questions, resolve: Resolve) -> None:
        self._questions, self._resolve = questions, resolve

    async def reach(self, caller: Caller, wish: Wish, approved: set[Target]) -> trio.SocketStream:
        """A connection to where the wish goes; the caller closes it.

        Args:
            approved: What this client connection was allowed by an answer; added to.

        Raises:
            Refused, Unreachable.
        """
        target, policy = wish.target, caller.ticket.policy
        judgement = judge_wish(wish, policy)
        if isinstance(judgement, Blocked):
            if judgement.reason != "not_allowed" or not caller.ticket.asks:
                raise Refused(judgement.reason)
            if target not in approved:
                if not await self._questions.ask(caller.ticket.agent, target, caller.command):
                    raise Refused("not_allowed")
                approved.add(target)
        found = await self._look_up(target)
        addresses = judge_addresses(target.host, found, policy)
        if isinstance(addresses, Blocked):
            raise Refused(addresses.reason)
        return await _connect(addresses, target)

    async def _look_up(self, target: Target) -> tuple[str, ...]:
        if is_address(target.host):
            return (target.host,)
        with trio.move_on_after(LOOK_UP_LIMIT_S):
            return await self._resolve(target.host, target.port)
        return ()


def system_resolver() -> Resolve:
    """The system's own name service; an unknown name has no addresses."""
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


async def _connect(addresses: tuple[str, ...], target: Target) -> trio.SocketStream:
    """One after the other. Raises Unreachable."""
    problem = "its name is not known" if not addresses else "no answer"
    for address in addresses[:_MOST_ADDRESSES]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = trio.socket.socket(family, socket.SOCK_STREAM)
        try:
            with trio.move_on_after(_CONNECT_LIMIT_S):
                await sock.connect((address, target.port))
                return trio.SocketStream(sock)
        except OSError as error:
            problem = error.strerror or str(error)
        except BaseException:
            sock.close()
            raise
        sock.close()
    raise Unreachable(f"cannot connect to {target.host}:{target.port}: {problem}")
