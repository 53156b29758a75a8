"""supervisor ⇄ gateway: its end of the mailbox to the supervisor (agents use `sampling`)."""

import msgspec

from .base import Tagged
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


class Drew(Tagged):
    """One response was paid for."""

    agent_id: str
    provider: str
    model: str
    usage: TokenUsage
    usd: float | None = None


class Throttled(Tagged):
    """Passing: the shared limiter holds requests back until then; None = it holds no longer."""

    reason: str
    delay_s: float | None = None
    waiting: int = 0


class Fetching(Tagged):
    """Passing: a model file arrives, about once a percent; `total_bytes` 0 = not known."""

    what: str
    have_bytes: int
    total_bytes: int = 0


class AgentGone(Tagged):
    """An agent's process ended: its running requests are to be cancelled."""

    agent_id: str


AnyGatewayEvent = (
    Hello
    | Heartbeat
    | Goodbye
    | Warned
    | GatewayReady
    | GatewayUnable
    | Drew
    | Throttled
    | Fetching
)
AnyGatewayOp = Shutdown | AgentGone

encode_gateway_event = msgspec.msgpack.Encoder().encode
decode_gateway_event = msgspec.msgpack.Decoder(AnyGatewayEvent).decode
encode_gateway_op = msgspec.msgpack.Encoder().encode
decode_gateway_op = msgspec.msgpack.Decoder(AnyGatewayOp).decode
