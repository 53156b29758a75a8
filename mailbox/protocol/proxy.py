"""supervisor ⇄ network proxy (its mailbox), and agent ⇄ network proxy (one socket a command).

The proxy decides by an agent's sealed ticket; what it may not decide it asks the supervisor, and
silence is no. Host names in here are in normal form, but come from commands: hostile text.
"""

from typing import Literal

import msgspec

from .base import Tagged, Value
from .events import Goodbye, Heartbeat, Hello, Warned
from .limits import NetworkPolicy
from .ops import Shutdown

NetworkProtocol = Literal["http", "https", "socks5_tcp", "socks5_udp"]
BlockReason = Literal[
    "denied",
    "not_allowed",  # the only one that a yes can lift
    "not_allowed_local",
    "method_not_allowed",
    "body_not_allowed",  # in limited mode, with a method that only reads
    "mitm_required",
    "proxy_disabled",
    "other",
]


class NetworkTarget(Value):
    """Where a command wants to go. `host` is a name or an address without brackets."""

    host: str
    port: int
    protocol: NetworkProtocol


class ProxyReady(Tagged):
    """It listens."""


class NetworkAsked(Tagged):
    """May this agent reach this host? Answered by `NetworkAnswered` with the same number."""

    question: int  # unique in the proxy's life
    agent: str  # path
    target: NetworkTarget
    trigger: str = ""  # the command that wants it


class NetworkWithdrawn(Tagged):
    """Nobody waits for the answer any more: the commands that wanted it have ended."""

    question: int


class NetworkBlocked(Tagged):
    """A request was refused. Told once for each agent, target and reason; bounded."""

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
    """What the supervisor says of one agent's life, sealed so that nobody can widen it."""

    agent: str  # path
    policy: NetworkPolicy
    asks: bool = False  # a host that is not allowed may be asked about


class OpenRoute(Tagged):
    """A command begins. With it comes its listener, made in its own network namespace. The route
    ends when the agent closes the socket.
    """

    ticket: bytes  # sealed
    command: str = ""  # as people are shown it


class RouteBlocked(Tagged):
    """The proxy tells the agent: this command was refused something."""

    target: NetworkTarget
    reason: BlockReason


AnyRouteMessage = OpenRoute | RouteBlocked

encode_proxy_event = msgspec.msgpack.Encoder().encode
decode_proxy_event = msgspec.msgpack.Decoder(AnyProxyEvent).decode
encode_proxy_op = msgspec.msgpack.Encoder().encode
decode_proxy_op = msgspec.msgpack.Decoder(AnyProxyOp).decode
encode_route = msgspec.msgpack.Encoder().encode
decode_route = msgspec.msgpack.Decoder(AnyRouteMessage).decode
