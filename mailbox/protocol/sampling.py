"""agent ⇄ gateway. An agent opens a conversation, sends what is new, and hears one response.

Everything here is posted through a numbered mailbox, except the deltas, which are passed on
(unnumbered, may be dropped: the finished item carries the whole).
"""

import hashlib
from typing import Literal

import msgspec

from .base import Tagged, Value
from .items import AnyItem, TokenUsage
from .settings import Summary, Verbosity

Wire = Literal["responses", "chat", "messages", "local", "scripted"]
ThinkingKind = Literal["", "budget", "adaptive", "always"]  # how a model of `messages` thinks


class ToolSpec(Value):
    """One tool as a model is told of it. `parameters` is encoded JSON, so it is encoded once."""

    name: str
    description: str
    parameters: bytes = b"{}"  # JSON schema as JSON text, encoded once (Raw would break msgpack)
    grammar: str | None = None  # lark; set = a freeform ("custom") tool where the wire knows them


class ModelInfo(Value):
    """What the loop must know of a model."""

    slug: str
    provider: str
    wire: Wire
    context_window: int = 272_000
    effective_context_percent: int = 95
    auto_compact_tokens: int | None = None
    output_limit_tokens: int = 10_000  # truncation of one tool output
    can_call_tools: bool = True
    freeform_tools: bool = False
    parallel_tool_calls: bool = True
    reasoning: bool = False
    image_input: bool = True
    default_effort: str | None = None
    short_prompt: bool = False  # small local models get the short base instructions
    known: bool = True  # False: fallback values; the run warns once
    input_usd_per_million: float | None = None
    cached_usd_per_million: float | None = None
    output_usd_per_million: float | None = None
    cache_write_usd_per_million: float | None = None  # None: as other input
    max_output_tokens: int | None = None  # of one response; None: not known
    thinking: ThinkingKind = ""
    efforts: tuple[str, ...] = ()  # that it knows; () = not known
    structured_output: bool = False  # can be held to a schema by `messages`
    stream_max_retries: int = 5  # of the provider: how often a broken stream is asked again
    stream_idle_s: float = 300.0  # of the provider: silence that ends a stream
    remote_compaction: bool = False  # the provider can shorten a conversation itself


# --- agent → gateway -------------------------------------------------------------------------


class OpenConversation(Tagged):
    """First message of an agent's life. Proves who it is; says which model it would like."""

    token: bytes  # made by the supervisor from the run's key and this peer's identity
    agent_id: str  # the prompt cache key, the same over all lives of the agent
    agent_path: str
    model: str | None = None  # None = the run's default


class SampleRequest(Tagged):
    """Sample once. `items` are only those after the first `base_count`.

    Each item is its msgpack encoding. `base_digest` is the chain over the items before
    (`chain_digest`); where it differs from the gateway's, `NeedHistory` asks for all.
    """

    request_id: int  # 1, 2, … in one life of the agent
    turn_id: str
    instructions: str  # base instructions; byte-stable over a conversation
    tools: tuple[ToolSpec, ...] = ()
    base_count: int = 0
    base_digest: bytes = b""
    items: tuple[msgspec.Raw, ...] = ()
    effort: str | None = None
    output_schema: bytes | None = None  # JSON text
    # Not an answer is wanted but a shorter history: the items done are what replaces it.
    compacts: bool = False
    summary: Summary = "auto"
    verbosity: Verbosity | None = None


class CancelSample(Tagged):
    request_id: int


AnySampleOp = OpenConversation | SampleRequest | CancelSample

# --- gateway → agent -------------------------------------------------------------------------


class ConversationOpened(Tagged):
    model: ModelInfo


class ConversationRefused(Tagged):
    """No such model, or a token that does not fit. Final."""

    message: str


class NeedHistory(Tagged):
    """The gateway does not hold the base; send the request again with every item."""

    request_id: int


class SampleItemStarted(Tagged):
    """Passing. A message, reasoning or call has begun to arrive."""

    request_id: int
    item_id: str
    kind: str  # "message", "reasoning", "function_call", …


class TextDelta(Tagged):
    """Passing."""

    request_id: int
    item_id: str
    delta: str


class ReasoningDelta(Tagged):
    """Passing."""

    request_id: int
    item_id: str
    delta: str


class SampleItemDone(Tagged):
    """One whole item, in stream order. A call may start running now."""

    request_id: int
    item: AnyItem


class SampleWaiting(Tagged):
    """Passing. The request waits: a shared rate limit, an overloaded server, or a retry."""

    request_id: int
    reason: str
    delay_s: float
    attempt: int = 0
    max_attempts: int = 0


class SampleAlive(Tagged):
    """Passing. The gateway is at the request: it waits for a place, between two attempts, or for
    the provider, whose silence it judges itself.
    """

    request_id: int


class SampleCompleted(Tagged):
    request_id: int
    response_id: str = ""
    usage: TokenUsage | None = None
    end_turn: bool | None = None
    truncated: bool = False  # the model was stopped at an output limit


SampleErrorKind = Literal[
    "context_window_exceeded",
    "usage_limit_exceeded",
    "unauthorized",
    "bad_request",
    "invalid_image",
    "overloaded",
    "connection_failed",
    "stream_disconnected",
    "idle_timeout",
    "bad_response",
    "incomplete",
    "refused_budget",
    "missing_key",
    "no_provider",
    "internal",  # the gateway's own fault, of this one request
    "repeating",  # of a turn alone: the model did the same again and again
    "other",
]


class SampleFailed(Tagged):
    """The attempt is over. `retryable`: the agent may rebuild the prompt and ask again."""

    request_id: int
    kind: SampleErrorKind
    message: str  # for people: what happened, where, what to do; no secret
    retryable: bool = False
    retry_after_s: float | None = None
    http_status: int | None = None


AnySampleEvent = (
    ConversationOpened
    | ConversationRefused
    | NeedHistory
    | SampleItemStarted
    | TextDelta
    | ReasoningDelta
    | SampleItemDone
    | SampleWaiting
    | SampleAlive
    | SampleCompleted
    | SampleFailed
)


def chain_digest(previous: bytes, encoded_item: bytes) -> bytes:
    """The digest of a history after one more item: 16 bytes; b"" stands for the empty history."""
    return hashlib.blake2b(encoded_item, digest_size=16, key=previous).digest()


_encoder = msgspec.msgpack.Encoder()
encode_sample_op = _encoder.encode
encode_sample_event = _encoder.encode
decode_sample_op = msgspec.msgpack.Decoder(AnySampleOp).decode
decode_sample_event = msgspec.msgpack.Decoder(AnySampleEvent).decode
