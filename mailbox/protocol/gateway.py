"""supervisor ⇄ gateway: its end of the mailbox to the supervisor (agents use `sampling`)."""

import msgspec

from .base import Tagged, Value
from .events import Goodbye, Heartbeat, Hello, Warned
from .items import TokenUsage
from .ops import Shutdown
from .sampling import ModelInfo


class GatewayReady(Tagged):
    """It listens. `why` says how the provider was chosen, in words for the header line."""

    provider: str
    model: ModelInfo
    why: str


class GatewayUnable(Tagged):
    """No provider can be used; the run ends with exit code 5 and this text."""

    message: str


class Reserve(Tagged):
    """May this request be sent? Asked only where a bound holds; `ResolvedProfile` or `NotGranted`
    answers.

    `reservation` is unique in the run. It ends with the `ResponseBilled` or the
    `ReservationReleased` that names it.
    """

    agent_id: str
    reservation: str
    tokens: int  # what the request may cost in all: its input, and a margin for its output
    usd: float | None = None  # None: the model's price is not known
    worked: bool = False  # the agent has had answers before: a last one could sum them up


class ResponseBilled(Tagged, tag="drew"):
    """One response was paid for. `reservation`: what was reserved for it; "" = nothing was."""

    agent_id: str
    provider: str
    model: str
    usage: TokenUsage
    usd: float | None = None
    reservation: str = ""


class ReservationReleased(Tagged, tag="lapsed"):
    """A reservation ended without a bill: it counts as so much."""

    agent_id: str
    reservation: str
    tokens: int = 0
    usd: float = 0.0
    requests: int = 0  # 0: it was never sent
    reason: str = ""


class Throttled(Tagged):
    """Passing: the shared limiter holds requests back until then; None = it holds no longer."""

    reason: str
    delay_s: float | None = None
    waiting: int = 0


class SecretLearned(Tagged):
    """A key was fetched: it must never be written down. Not journaled, and not shown."""

    secret: str


class LimitWindow(Value):
    """One allowance of the account, as the server last told of it."""

    name: str
    used_percent: float = 0.0  # 0 to 100
    window_minutes: float | None = None
    resets_at_unix_s: float | None = None


class RateLimits(Tagged):
    """Passing: all windows that are known, when one of them has moved; the keeper journals it."""

    windows: tuple[LimitWindow, ...]


class Fetching(Tagged):
    """Passing: a model file arrives, about once a percent; `total_bytes` 0 = not known."""

    what: str
    have_bytes: int
    total_bytes: int = 0


class AgentGone(Tagged):
    """An agent's process ended: its running requests are to be cancelled.

    The word may come late, when its next life has opened a conversation already: `epoch` says
    which life is over. 0: whichever there is.
    """

    agent_id: str
    epoch: int = 0


class RequireReservations(Tagged, tag="ask_first"):
    """From now on a bound holds somewhere: no request of any agent goes out unasked."""


class Granted(Tagged):
    """The request may be sent. `bounded` False: this agent need not ask again until
    `RequireReservations`.
    """

    reservation: str
    last: bool = False  # over the bound: for the agent's best answer, once
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
AnyGatewayOp = Shutdown | AgentGone | RequireReservations | Granted | NotGranted

encode_gateway_event = msgspec.msgpack.Encoder().encode
decode_gateway_event = msgspec.msgpack.Decoder(AnyGatewayEvent).decode
encode_gateway_op = msgspec.msgpack.Encoder().encode
decode_gateway_op = msgspec.msgpack.Decoder(AnyGatewayOp).decode
