"""Messages between supervisor and gateway (agents and gateway use `sampling`)."""

import msgspec

from .events import Goodbye, Heartbeat, Hello, Warned
from .items import TokenUsage
from .ops import Shutdown
from .sampling import ModelInfo
from .values.base import Tagged, Value


class GatewayReady(Tagged):
    """The gateway listens. `why` says how the provider was chosen, as text for the header line."""

    provider: str
    model: ModelInfo
    why: str


class GatewayUnable(Tagged):
    """No provider can be used; the run ends with exit code 5 and this text."""

    message: str


class Reserve(Tagged):
    """Ask to send a request, while a limit holds. The reply is `Granted` or `NotGranted`.

    `reservation` is unique in the run. It ends with the `ResponseBilled` or the
    `ReservationReleased` that names it.
    """

    agent_id: str
    reservation: str
    tokens: int  # highest total cost of the request: its input, and a margin for its output
    usd: float | None = None  # None: the model's price is unknown
    worked: bool = False  # the agent has had responses before: a last one could summarize them


class ResponseBilled(Tagged, tag="drew"):
    """One response was billed. `reservation` is what was reserved for it; "" = nothing."""

    agent_id: str
    provider: str
    model: str
    usage: TokenUsage
    usd: float | None = None
    reservation: str = ""


class ReservationReleased(Tagged, tag="lapsed"):
    """A reservation ended without a bill: it counts as the amounts given here."""

    agent_id: str
    reservation: str
    tokens: int = 0
    usd: float = 0.0
    requests: int = 0  # 0: it was never sent
    reason: str = ""


class Throttled(Tagged):
    """Transient: the shared rate limiter holds requests back for `delay_s`; None: no longer."""

    reason: str
    delay_s: float | None = None
    waiting: int = 0


class SecretLearned(Tagged):
    """A key was fetched and must be redacted everywhere. Not journaled, and not shown."""

    secret: str


class LimitWindow(Value):
    """One rate-limit window of the account, as last reported by the server."""

    name: str
    used_percent: float = 0.0  # 0 to 100
    window_minutes: float | None = None
    resets_at_unix_s: float | None = None


class RateLimits(Tagged):
    """Transient: all known windows, sent when one has changed. The supervisor journals it."""

    windows: tuple[LimitWindow, ...]


class Fetching(Tagged):
    """Transient, about once a percent: a model file is downloaded; `total_bytes` 0 = unknown."""

    what: str
    have_bytes: int
    total_bytes: int = 0


class AgentGone(Tagged):
    """An agent's process ended: cancel its running requests.

    This may arrive after the agent's next process has opened a conversation, so `epoch` says which
    process ended. 0: any.
    """

    agent_id: str
    epoch: int = 0


class RequireReservations(Tagged, tag="ask_first"):
    """A limit holds somewhere from now on: every agent's request needs a reservation."""


class TryNow(Tagged):
    """No limit that is known holds any more: the next request is sent, and others follow it."""


class Granted(Tagged):
    """The request may be sent. `bounded` False: no reservations until `RequireReservations`."""

    reservation: str
    last: bool = False  # over the limit: one request for the agent's best answer
    bounded: bool = True


class NotGranted(Tagged):
    """The request may not be sent. `ask_again`: one more, for the best answer, would be granted."""

    reservation: str
    reason: str
    ask_again: bool = False


AnyGatewayEvent = (
    Hello
    | Heartbeat
    | Goodbye
    | Warned
    | GatewayReady
    | GatewayUnable
    | Reserve
    | ResponseBilled
    | ReservationReleased
    | Throttled
    | RateLimits
    | Fetching
    | SecretLearned
)
AnyGatewayOp = Shutdown | AgentGone | RequireReservations | TryNow | Granted | NotGranted

encode_gateway_event = msgspec.msgpack.Encoder().encode
decode_gateway_event = msgspec.msgpack.Decoder(AnyGatewayEvent).decode
encode_gateway_op = msgspec.msgpack.Encoder().encode
decode_gateway_op = msgspec.msgpack.Decoder(AnyGatewayOp).decode
