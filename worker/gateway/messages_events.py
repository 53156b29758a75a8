"""The events of the Messages wire: their structs, and which of them are used here."""

import msgspec

from swarm.mailbox.protocol.items import TokenUsage

from .event_payloads import DecodedEvent, read_event

# Delta types by block type, and the field of each; None: the delta is not kept.
DELTAS: dict[str, dict[str, str | None]] = {
    "text": {"text_delta": "text", "citations_delta": None},
    "thinking": {"thinking_delta": "thinking", "signature_delta": "signature"},
    "redacted_thinking": {},
    "tool_use": {"input_json_delta": "partial_json"},
}
_USED = frozenset(
    {
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop", "error"),
    }
)


class MessagesUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class MessageStart(msgspec.Struct):
    id: str | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")


class ContentBlock(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"null")
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class StopDetails(msgspec.Struct):
    category: str | None = None
    explanation: str | None = None


class MessagesDelta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class MessagesError(msgspec.Struct):
    type: str | None = None
    message: str | None = None


class MessagesEvent(msgspec.Struct):
    """Every event is decoded as this struct; absent fields keep their defaults."""

    type: str = ""
    index: int | None = None
    message: MessageStart | None = None
    content_block: ContentBlock | None = None
    delta: MessagesDelta | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")  # not part of the answer: decoded separately
    error: MessagesError | None = None
    request_id: str | None = None


class _AnyEvent(msgspec.Struct):
    type: str


_decode = msgspec.json.Decoder(MessagesEvent).decode
_decode_type = msgspec.json.Decoder(_AnyEvent).decode
_decode_usage = msgspec.json.Decoder(MessagesUsage | None).decode


def read_message_event(payload: bytes) -> "DecodedEvent[MessagesEvent] | None":
    """The event; None if its type is not used. Raises UnreadableEvent."""
    kind = read_event(_decode_type, payload).event.type
    return read_event(_decode, payload) if kind in _USED else None


def add_usage(known: MessagesUsage, raw: msgspec.Raw) -> None:
    """The counts are totals so far; an event that leaves one out does not change it."""
    try:
        usage = _decode_usage(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    for name in MessagesUsage.__struct_fields__:
        if usage is not None and (value := getattr(usage, name)) is not None:
            setattr(known, name, value)


def to_token_usage(usage: MessagesUsage) -> TokenUsage:
    """Input tokens here include the cached ones; on the wire the two are separate."""
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    made = usage.output_tokens or 0
    whole = (usage.input_tokens or 0) + read + written
    return TokenUsage(
        input_tokens=whole,
        cached_input_tokens=read,
        cache_write_input_tokens=written,
        output_tokens=made,
        total_tokens=whole + made,
    )
