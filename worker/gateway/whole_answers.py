"""A whole JSON answer, of a server that does not stream, as the events of a stream. Pure."""

from codecs import BOM_UTF8
from typing import cast

import msgspec

from .sse import UnreadableEvent

JsonObject = dict[str, object]
MAX_WHOLE_BYTES = 16 << 20
_decode = msgspec.json.Decoder(JsonObject).decode
_encode = msgspec.json.Encoder().encode
_TYPED_DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
}


def is_whole_answer(beginning: bytes) -> bool:
    """True if a body is one JSON object and no event stream, whatever its type says.

    No line of a stream begins with a bracket; a line that does would say nothing.
    """
    return beginning.removeprefix(BOM_UTF8).lstrip().startswith(b"{")


def events_of_answer(body: bytes, wire: str) -> list[bytes]:
    """The payloads of a stream that says the same. Raises UnreadableEvent."""
    body = body.removeprefix(BOM_UTF8)
    try:
        answer = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableEvent("the answer is neither a stream nor a JSON object") from None
    if answer.get("error"):
        kind: JsonObject = {} if wire == "chat" else {"type": "error"}
        return [_encode(kind | {"error": answer["error"]})]
    match wire:
        case "responses":
            status = answer.get("status")
            kind_name = status if status in {"failed", "incomplete"} else "completed"
            return [_encode({"type": f"response.{kind_name}", "response": answer})]
        case "messages":
            return [_encode(event) for event in _events_of_message(answer)]
        case _:
            return [body]


def _events_of_message(answer: JsonObject) -> list[JsonObject]:
    usage = answer.get("usage")
    start = {"id": answer.get("id"), "model": answer.get("model"), "usage": usage}
    events: list[JsonObject] = [{"type": "message_start", "message": start}]
    content = answer.get("content")
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    for index, block in enumerate(blocks):
        if isinstance(block, dict):
            events += _events_of_block(cast("JsonObject", block), index)
    delta = {"stop_reason": answer.get("stop_reason") or "end_turn"}
    return [*events, {"type": "message_delta", "delta": delta}, {"type": "message_stop"}]


def _events_of_block(block: JsonObject, index: int) -> list[JsonObject]:
    """A block that is begun whole and stopped; its texts are deltas, as in a stream."""
    kind, fields = block.get("type"), dict(block)
    deltas: list[JsonObject] = []
    if isinstance(kind, str) and kind in _TYPED_DELTAS:
        delta, name = _TYPED_DELTAS[kind]
        deltas = [{"type": delta, name: fields.pop(name, "") or ""}]
    at: JsonObject = {"index": index}
    return [
        at | {"type": "content_block_start", "content_block": fields},
        *(at | {"type": "content_block_delta", "delta": delta} for delta in deltas),
        at | {"type": "content_block_stop"},
    ]
