"""Messages between agent and gateway: open a conversation, send new items, receive a response.

All messages are numbered and acknowledged, except the deltas: they are transient and may be
dropped, because the finished item holds the whole text.
"""

import hashlib
from typing import Literal

import msgspec

from .items import AnyItem, TokenUsage
from .settings import SamplingSettings, Summary, Verbosity
from .values.base import Tagged, Value

Wire = Literal["responses", "chat", "messages", "local", "scripted"]
# how a model of the `messages` wire thinks
ThinkingKind = Literal["", "budget", "adaptive", "always"]
MailRole = Literal["user", "assistant"]
SMALL_WINDOW = 8_192  # tokens; a known model with no more counts as small


class ToolSpec(Value):
    """One tool as described to a model. `parameters` is encoded JSON, so it is encoded once."""

    name: str
    description: str
    parameters: bytes = b"{}"  # JSON schema as JSON text, encoded once (Raw would break msgpack)
    grammar: str | None = None  # lark; if set, a freeform ("custom") tool on wires that support it


class ModelInfo(Value):
    """What the agent loop needs to know about a model."""

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
    known: bool = True  # False: fallback values are used; the run warns once
    input_usd_per_million: float | None = None
    cached_usd_per_million: float | None = None
    output_usd_per_million: float | None = None
    cache_write_usd_per_million: float | None = None  # None: priced as other input
    max_output_tokens: int | None = None  # of one response; None: unknown
    thinking: ThinkingKind = ""
    efforts: tuple[str, ...] = ()  # supported efforts; () = unknown
    structured_output: bool = False  # the `messages` wire can hold it to a schema
    mail_role: MailRole = "user"  # `responses` wire: the role of messages from other agents
    stream_max_retries: int = 5  # of the provider: retries of a broken stream
    stream_idle_s: float = 300.0  # of the provider: silence after which a stream is ended
    # Its tool calls are JSON text that the server's grammar enforces (small models).
    constrained_calls: bool = False
    remote_compaction: bool = False  # the provider can compact a conversation itself
    small: bool | None = None  # few tools, described in few words; None: by the other fields

    @property
    def is_small(self) -> bool:
        """True for a model that many tools and long instructions confuse, or do not fit."""
        if self.small is not None:
            return self.small
        has_small_window = self.known and self.context_window <= SMALL_WINDOW
        return self.short_prompt or self.constrained_calls or has_small_window


# --- agent → gateway -------------------------------------------------------------------------


class OpenConversation(Tagged):
    """First message of an agent's process: proves its identity and names the model it wants."""

    token: bytes  # made by the supervisor from the run's key and this peer's identity
    agent_id: str  # the prompt cache key; stays the same over restarts of the agent
    agent_path: str
    model: str | None = None  # None = the default of the provider
    provider: str | None = None  # None = the run's own


class SampleRequest(Tagged):
    """Request one response. `items` are only those after the first `base_count`.

    Each item is its msgpack encoding. `base_digest` is the chain digest (`chain_digest`) of the
    first `base_count` items. If it differs from the gateway's, `NeedHistory` asks for all items.
    """

    request_id: int  # 1, 2, … in one process of the agent
    turn_id: str
    instructions: str  # base instructions; constant over a conversation
    tools: tuple[ToolSpec, ...] = ()
    base_count: int = 0
    base_digest: bytes = b""
    items: tuple[msgspec.Raw, ...] = ()
    effort: str | None = None
    output_schema: bytes | None = None  # JSON text
    # True: compact the history instead; the finished items replace it.
    compacts: bool = False
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    sampling: SamplingSettings = SamplingSettings()


class CancelSample(Tagged):
    request_id: int


AnySampleOp = OpenConversation | SampleRequest | CancelSample

# --- gateway → agent -------------------------------------------------------------------------


class ConversationOpened(Tagged):
    model: ModelInfo


class ConversationRefused(Tagged):
    """Unknown model or wrong token. Final."""

    message: str


class NeedHistory(Tagged):
    """The gateway does not hold the base items; send the request again with every item."""

    request_id: int


class SampleItemStarted(Tagged):
    """Transient: a message, reasoning or call has begun to arrive."""

    request_id: int
    item_id: str
    kind: str  # "message", "reasoning", "function_call", …
    tool: str = ""  # the name that a call has, if it is known already


class TextDelta(Tagged):
    """Transient: text of a message."""

    request_id: int
    item_id: str
    delta: str


class ReasoningDelta(Tagged):
    """Transient: reasoning text."""

    request_id: int
    item_id: str
    delta: str


class SampleItemDone(Tagged):
    """One complete item, in stream order. A call may start now."""

    request_id: int
    item: AnyItem


class SampleWaiting(Tagged):
    """Transient: the request waits because of a rate limit, an overloaded server or a retry."""

    request_id: int
    reason: str
    delay_s: float
    attempt: int = 0
    max_attempts: int = 0


class SampleAlive(Tagged):
    """Transient: the gateway is working on the request.

    It waits for a place, between two attempts, or for the provider. The gateway itself judges the
    provider's silence.
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
    "internal",  # a fault of the gateway, for this request only
    "repeating",  # for turns only: the model repeated the same action
    "unreadable_call",  # for turns only: its calls cannot be read, also after corrections
    "hook",  # for turns only: a hook withheld the input or ended the session
    "no_answer",  # for turns only: it ended without an answer, also after it was asked for one
    "other",
]


class SampleFailed(Tagged):
    """The attempt has failed. `retryable`: the agent may rebuild the prompt and ask again."""

    request_id: int
    kind: SampleErrorKind
    message: str  # for people: what happened, where, what to do; without secrets
    retryable: bool = False
    retry_after_s: float | None = None
    http_status: int | None = None
    window_tokens: int | None = None  # the window that the server named when it was exceeded
    may_be_too_long: bool = False  # in words that nobody knows: a shorter history is tried once
    resets_at_unix_s: float | None = None  # when the limit that was reached resets, if it is named


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
    """The digest of a history after one more item: 16 bytes; b"" for an empty history."""
    return hashlib.blake2b(encoded_item, digest_size=16, key=previous).digest()


_encoder = msgspec.msgpack.Encoder()
encode_sample_op = _encoder.encode
encode_sample_event = _encoder.encode
decode_sample_op = msgspec.msgpack.Decoder(AnySampleOp).decode
decode_sample_event = msgspec.msgpack.Decoder(AnySampleEvent).decode
