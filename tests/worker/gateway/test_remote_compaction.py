"""The provider's own compaction: what is asked, what of its answer is taken and what is not."""

from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.items import Compaction, FunctionCall, TokenUsage, text_message
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.worker.gateway import responses_request
from swarm.worker.gateway.backend import (
    RenderedRequest,
    RequestAccepted,
    ResponseFinished,
    ResponseItemDone,
    SampleError,
)
from swarm.worker.gateway.http.http_client import open_http
from swarm.worker.gateway.http_source import HttpSource
from swarm.worker.gateway.provider_keys import ProviderKeys
from swarm.worker.gateway.providers import built_in_providers
from swarm.worker.gateway.request_encoding import EncodingContext, HeadKey, RequestHeadCache

MODEL = ModelInfo(slug="m", provider="p", wire="responses", reasoning=True, default_effort="low")
TOOL = ToolSpec(name="look", description="d")


def body(**more):
    store = responses_request.ResponsesStore(
        EncodingContext(blobs_dir=Path("/nowhere"), model=MODEL),
        RequestHeadCache(responses_request.encode_head),
    )
    store.append(text_message("user", "hi"))
    store.append(FunctionCall(call_id="c", name="look", arguments="{}"))
    store.append(Compaction(encrypted_content="old", id="x"))
    key = HeadKey(model=MODEL, instructions="I", tools=(TOOL,), **more)
    return store.body(key, "agent")


async def compact(server, *pieces, query=None):
    server.add(*pieces, content_type="application/json")
    provider = ProviderSpec(id="p", name="P", base_url=server.url, query_params=query or {})
    request = RenderedRequest(
        agent_id="a", agent_path="/root", ordinal=1, model=MODEL, compacts=True,
        body=body(compacts=True),
    )  # fmt: skip
    with trio.fail_after(30):
        async with open_http(server.url) as client:
            source = HttpSource(client, provider, ProviderKeys({}), lambda: "id")
            async with aclosing(source.attempt(request)) as events:
                return [event async for event in events if not isinstance(event, RequestAccepted)]


def test_it_is_asked_with_the_same_items_and_tools_and_none_of_an_answers_settings():
    asked = msgspec.json.decode(b"".join(body(compacts=True)))
    usual = msgspec.json.decode(b"".join(body()))
    assert list(asked) == [
        "model", "instructions", "tools", "parallel_tool_calls", "reasoning", "input",
    ]  # fmt: skip
    assert {key: asked[key] for key in ("input", "tools", "instructions")} == {
        key: usual[key] for key in ("input", "tools", "instructions")
    }
    assert asked["input"][-1] == {"type": "compaction", "encrypted_content": "old"}
    assert asked["reasoning"] == {"effort": "low"}


async def test_only_what_is_sealed_is_taken_and_the_usage_counts(model_server):
    usage = {"input_tokens": 70, "output_tokens": 7, "total_tokens": 77}
    output = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "compaction_summary", "encrypted_content": "s"},
        {"type": "compaction"},
    ]
    answer = msgspec.json.encode({"id": "r", "output": output, "usage": usage})
    first, last = await compact(model_server, answer[:20], answer[20:], query={"v": "1"})
    assert first == ResponseItemDone(item=Compaction(encrypted_content="s"))
    assert isinstance(last, ResponseFinished)
    assert last.usage == TokenUsage(input_tokens=70, output_tokens=7, total_tokens=77)
    assert model_server.requests[0].target == "/v1/responses/compact?v=1"


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b'{"output": 3}', b'{"id": "\xff"}'])
async def test_an_answer_that_cannot_be_read_is_a_failure_that_names_the_provider(
    model_server, answer
):
    with pytest.raises(SampleError, match="the compaction of p cannot be read") as caught:
        await compact(model_server, answer)
    assert caught.value.failure.kind == "bad_response"


async def test_an_empty_output_is_no_failure_here(model_server):
    (last,) = await compact(model_server, b'{"output": [], "usage": "much"}')
    assert isinstance(last, ResponseFinished)
    assert last.usage is None


def test_of_the_built_in_providers_only_openai_has_it():
    assert [one.id for one in built_in_providers({}) if one.remote_compaction] == ["openai"]
