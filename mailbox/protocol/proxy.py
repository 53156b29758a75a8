"""Messages of the network proxy: with the supervisor (mailbox), with agents (a socket per command).

The proxy decides by an agent's sealed ticket, and asks the supervisor where the ticket does not
decide. A missing answer means no. Host names here are in normal form, but they come from commands
and are untrusted.
"""

from typing import Literal

import msgspec

from .events import Goodbye, Heartbeat, Hello, Warned
from .ops import Shutdown
from .values.base import Tagged, Value
from .values.limits import NetworkPolicy

NetworkProtocol = Literal["http", "https", "socks5_tcp", "socks5_udp"]
BlockReason = Literal[
    "denied",
    "not_allowed",  # the only reason that an approval can lift
    "not_allowed_local",
    "method_not_allowed",
    "body_not_allowed",  # in limited mode, with a read-only method
    "mitm_required",
    "proxy_disabled",
    "other",
]


class NetworkTarget(Value):
    """The target of a connection. `host` is a name, or an address without brackets."""

    host: str
    port: int
    protocol: NetworkProtocol


class ProxyReady(Tagged):
    """The proxy listens."""


class NetworkAsked(Tagged):
    """May this agent reach this host? The reply is `NetworkAnswered` with the same `question`."""

    question: int  # unique in one process of the proxy
    agent: str  # path
    target: NetworkTarget
    trigger: str = ""  # the command that causes it


class NetworkWithdrawn(Tagged):
    """The question is void: the commands that waited for the answer have ended."""

    question: int


class NetworkBlocked(Tagged):
    """A request was refused. Sent once for each agent, target and reason; bounded."""

    agent: str
    target: NetworkTarget
    reason: BlockReason
    method: str = ""  # of a plain HTTP request


class NetworkAnswered(Tagged):
    """`remember`: it holds for the rest of the run, for agents at and below `below`."""

    question: int
    allow: bool
    remember: bool = False
    below: str = ""  # "" = the whole tree


AnyProxyEvent = (
    Hello | Heartbeat | Goodbye | Warned | ProxyReady | NetworkAsked | NetworkWithdrawn
    | NetworkBlocked
)  # fmt: skip
AnyProxyOp = Shutdown | NetworkAnswered


class NetworkTicket(Value):
    """One agent's network rights, sealed by the supervisor so that nobody can change them."""

    agent: str  # path
    policy: NetworkPolicy
    asks: bool = False  # a host that is not allowed may be asked about


class OpenRoute(Tagged):
    """Start a route for a command. Attached: its listener, made in its own network namespace.

    The route ends when the agent closes the socket.
    """

    ticket: bytes  # sealed
    command: str = ""  # as shown to people


class RouteBlocked(Tagged):
    """Tells the agent that a request of this command was refused."""

    target: NetworkTarget
    reason: BlockReason


AnyRouteMessage = OpenRoute | RouteBlocked

encode_proxy_event = msgspec.msgpack.Encoder().encode
decode_proxy_event = msgspec.msgpack.Decoder(AnyProxyEvent).decode
encode_proxy_op = msgspec.msgpack.Encoder().encode
decode_proxy_op = msgspec.msgpack.Decoder(AnyProxyOp).decode
encode_route = msgspec.msgpack.Encoder().encode
decode_route = msgspec.msgpack.Decoder(AnyRouteMessage).decode
