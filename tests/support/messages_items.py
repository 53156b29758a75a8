"""Items and requests of the Messages wire, for test_messages_*.py."""

import json
from pathlib import Path

from swarm.mailbox.protocol.items import FunctionCall, FunctionCallOutput, text_message
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.worker.gateway.messages_head import encode_head
from swarm.worker.gateway.messages_request import CACHE_MARK, MessagesStore
from swarm.worker.gateway.request_encoding import (
    EncodingContext,
    HeadKey,
    RequestHeadCache,
    Thinking,
    seal_block,
)

MODEL = ModelInfo(slug="m", provider="p", wire="messages", max_output_tokens=32_000)
TOOLS = (
    ToolSpec(name="f", description="d", parameters=b'{"type":"object"}'),
    ToolSpec(name="patch", description="p", parameters=b'{"properties":{}}', grammar="start: X"),
)
CLOSED = b'{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}'  # noqa: E501


def store_of(*items, model=MODEL, blobs_dir=Path("/nowhere")):
    store = MessagesStore(
        EncodingContext(blobs_dir=blobs_dir, model=model), RequestHeadCache(encode_head)
    )
    for item in items:
        store.append(item)
    return store


def raw_of(store, **key):
    settings = {"model": MODEL, "instructions": "Be brief.", **key}
    return b"".join(store.body(HeadKey(**settings), "agent"))


def body_of(store, **key):
    return json.loads(raw_of(store, **key))


def messages(*items, **settings):
    """Each message as (role, blocks), marks left out."""
    raw = raw_of(store_of(*items, **settings)).replace(CACHE_MARK, b"")
    return [(one["role"], one["content"]) for one in json.loads(raw)["messages"]]


def text(words):
    return {"type": "text", "text": words}


def call(call_id, name="f", arguments='{"a":1}'):
    return FunctionCall(call_id=call_id, name=name, arguments=arguments)


def output(call_id, words="o", *, success=True):
    return FunctionCallOutput(call_id=call_id, output=words, success=success)


def use(call_id, name="f", given=None):
    given = {"a": 1} if given is None else given
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id, words="o"):
    return {"type": "tool_result", "tool_use_id": call_id, "content": words}


def thought(words="hm", signature="SIG", slug="m"):
    block = Thinking(thinking=words, signature=signature)
    return seal_block(block, slug=slug, item_id="rs")


def say(words):
    return text_message("assistant", words)


def ask(words):
    return text_message("user", words)
