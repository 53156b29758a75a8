"""A response has an end on every wire: too many items fail it, however small they are."""

import json

import pytest

from swarm.worker.gateway.backend import SampleError
from swarm.worker.gateway.chat_stream import ChatStream
from swarm.worker.gateway.messages_stream import MessagesStream
from swarm.worker.gateway.responses_stream import ResponsesStream
from swarm.worker.gateway.sse import MOST_ITEMS, SseSplitter
from swarm.worker.gateway.wire_stream import WireStream


def responses(number):
    call = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}", "name": "t"}
    return {"type": "response.output_item.added", "item": call}


def responses_done(number):
    call = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}", "name": "t"}
    return {"type": "response.output_item.done", "item": call | {"arguments": "{}"}}


def messages(number):
    block = {"type": "tool_use", "id": f"c{number}", "name": "t", "input": {}}
    return {"type": "content_block_start", "index": number, "content_block": block}


def chat(number):
    entry = {"index": number, "id": f"c{number}", "function": {"name": "t", "arguments": ""}}
    return {"choices": [{"delta": {"tool_calls": [entry]}}]}


def stream_of(make):
    ids = iter(range(10**6))

    def new_id():
        return f"n{next(ids)}"

    if make is messages:
        return MessagesStream(provider="p", slug="m", new_id=new_id)
    if make is chat:
        return ChatStream(provider="p", new_id=new_id, offered=frozenset({"t"}), tolerant=False)
    return ResponsesStream(provider="p", new_id=new_id, provider_id="p")


@pytest.mark.parametrize("make", [responses, responses_done, messages, chat])
def test_too_many_items_fail_the_response_on_every_wire(make):
    stream, splitter = stream_of(make), SseSplitter()
    assert isinstance(stream, WireStream)
    fed = 0
    with pytest.raises(SampleError, match=f"{MOST_ITEMS:,} items"):
        for number in range(MOST_ITEMS + 2):
            data = f"data: {json.dumps(make(number))}\n\n".encode()
            for payload in splitter.feed(data):
                list(stream.feed(payload))
            fed = number
    assert fed >= MOST_ITEMS / 2
