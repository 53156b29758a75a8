"""How answers arrive: the framing of a stream, and the forms of the two wires whose events have
types. Each takes a well-behaved stream apart and says the same in another way.
"""

import json
from typing import Any

Json = dict[str, Any]
PINGS = {
    "chat": b'data: {"id":"","object":"","choices":[]}',
    "messages": b'event: ping\ndata: {"type":"ping"}',
    "responses": b'data: {"type":"keepalive","sequence_number":1}',
}
FILTER_FIRST = (
    b'data: {"choices":[],"id":"","model":"","prompt_filter_results":[{"prompt_index":0}]}'
)
USAGE_LAST = (
    b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":"5","total_tokens":15.0}}'
)


def framed(data: bytes, wire: str, frames: tuple[str, ...]) -> bytes:
    """The stream with another framing."""
    events = [event for event in data.split(b"\n\n") if event]
    if "filter first" in frames:
        events.insert(0, FILTER_FIRST)
    if "usage last" in frames:
        events.insert(-1, USAGE_LAST)
    if "comments" in frames:
        events = [piece for event in events for piece in (b": PROCESSING", event)]
    if "pings" in frames:
        events = [piece for event in events[:-1] for piece in (PINGS[wire], event)] + events[-1:]
    if "no done" in frames:
        events = [event for event in events if event != b"data: [DONE]"]
    if "done twice" in frames:
        events.append(events[-1])
    if "typed lines alone" in frames:
        events = [b"id: 1\nretry: 5\n" + event for event in events]
    if "tight" in frames:
        events = [event.replace(b"data: ", b"data:") for event in events]
    joint = b"\n" if "no blank lines" in frames else b"\n\n"
    data = joint.join(events) + b"\n\n"
    return data.replace(b"\n", b"\r\n") if "crlf" in frames else data


def events_in(data: bytes) -> list[Json]:
    lines = [line for line in data.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


def stream_of(events: list[Json]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def messages_in_form(data: bytes, form: str) -> bytes:
    events = events_in(data)
    match form:
        case "gaps":
            events = [_numbered(one, lambda index: 2 * index) for one in events]
        case "index 0":
            events = [_numbered(one, lambda _: 0) for one in events]
        case "no index":
            events = [{key: one[key] for key in one if key != "index"} for one in events]
        case "empty deltas":
            events = [piece for one in events for piece in (*_empty_delta(one), one)]
        case "stopped twice":
            events = [
                piece
                for one in events
                for piece in ((one, one) if one["type"] == "content_block_stop" else (one,))
            ]
        case "no stop event":
            events = [one for one in events if one["type"] != "message_stop"]
        case _:
            return data
    return stream_of(events)


def _numbered(event: Json, number: Any) -> Json:
    return {**event, "index": number(event["index"])} if "index" in event else event


def _empty_delta(event: Json) -> tuple[Json, ...]:
    if event["type"] != "content_block_delta":
        return ()
    return ({**event, "delta": {**event["delta"], "text": "", "type": "text_delta"}},)


def responses_in_form(data: bytes, form: str) -> bytes:
    events = events_in(data)
    done = [one for one in events if one["type"] == "response.output_item.done"]
    match form:
        case "pieces alone":
            events = [piece for one in events for piece in _in_pieces(one) if one not in done]
        case "at the end":
            items = [one["item"] for one in done]
            events = [events[0], {**events[-1], "response": {"id": "r", "output": items}}]
        case "rest at the end":
            items = [one["item"] for one in done]
            last = {**events[-1], "response": {"id": "r", "output": items}}
            events = [one for one in events[:-1] if one not in done[1:]] + [last]
        case "told twice":
            for one in done:
                one["item"].setdefault("id", f"fc_{one['item'].get('call_id')}")
            events = [piece for one in events for piece in ((one, one) if one in done else (one,))]
        case "done empty":
            events = [piece for one in events for piece in _in_pieces(one, keeps=done)]
        case _:
            return data
    return stream_of(events)


def _in_pieces(event: Json, keeps: list[Json] | None = None) -> tuple[Json, ...]:
    """An item's arguments as deltas, and its last event without them."""
    item = event.get("item", {})
    if item.get("type") != "function_call":
        return (event,)
    item_id = f"fc_{item['call_id']}"
    bare = {**item, "id": item_id, "arguments": ""}
    if event["type"] == "response.output_item.done":
        return ({**event, "item": bare},) if keeps is not None else ()
    kind = "response.function_call_arguments.delta"
    text = item["arguments"]
    pieces = (text[: len(text) // 2], text[len(text) // 2 :])
    deltas = ({"type": kind, "item_id": item_id, "delta": piece} for piece in pieces)
    return ({**event, "item": bare}, *deltas)
