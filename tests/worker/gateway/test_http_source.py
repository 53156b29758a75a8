"""The HTTP way against a real server on loopback: both wires, every bad input, and patience."""

import gzip
import zlib
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.items import (
    FunctionCall,
    Message,
    OutputText,
    TokenUsage,
    encode_item,
    text_message,
)
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest, ToolSpec
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.worker.gateway import chat_request, responses_request
from swarm.worker.gateway.backend import (
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    ResponseTextDelta,
    SampleError,
)
from swarm.worker.gateway.conversations import Conversation, ConversationOwner
from swarm.worker.gateway.http.http_client import open_http
from swarm.worker.gateway.http_source import HttpSource
from swarm.worker.gateway.provider_keys import ProviderKeys
from swarm.worker.gateway.rate_limiter import RateLimiter
from swarm.worker.gateway.request_encoding import EncodingContext, RequestHeadCache
from swarm.worker.gateway.retry_policy import RetryingBackend

KEY = "sk-test-0123456789abcdefghij"
TOOLS = (ToolSpec(name="exec_command", description="Run.", parameters=b'{"type":"object"}'),)


def rendered(wire="responses", tools=TOOLS):
    model = ModelInfo(slug="m", provider="p", wire=wire, reasoning=wire == "responses")
    rendering = EncodingContext(blobs_dir=Path("/nowhere"), model=model)
    if wire == "responses":
        store = responses_request.ResponsesStore(
            rendering, RequestHeadCache(responses_request.encode_head)
        )
    else:
        store = chat_request.ChatStore(rendering, RequestHeadCache(chat_request.encode_head))
    conversation = Conversation(ConversationOwner("agent-1", "/root", model), store)
    items = (msgspec.Raw(encode_item(text_message("user", "hello"))),)
    request = SampleRequest(
        request_id=1, turn_id="t", instructions="Be brief.", tools=tools, items=items
    )
    assert conversation.accept(request)
    return conversation.render(request, ordinal=1)


@asynccontextmanager
async def backend(server, *, wire="responses", announce=None, **settings):
    provider = ProviderSpec(
        id="p", name="Test", base_url=server.url, wire_api=wire, env_key="TEST_KEY", **settings
    )
    ids = iter(range(1, 1000))
    async with open_http(provider.base_url) as client:
        source = HttpSource(
            client, provider, ProviderKeys({"TEST_KEY": KEY}), lambda: f"id{next(ids)}"
        )
        gate = RateLimiter(announce=announce or (lambda _: None), noise=lambda: 0.0)
        yield RetryingBackend(source, gate, max_retries=provider.request_max_retries)


async def ask(server, *, wire="responses", request=None, **settings):
    """All events of one response; SampleError if it fails."""
    with trio.fail_after(30):
        async with (
            backend(server, wire=wire, **settings) as able,
            aclosing(able.sample(request or rendered(wire))) as events,
        ):
            return [event async for event in events]


async def failure_of(server, **settings):
    with pytest.raises(SampleError) as caught:
        await ask(server, **settings)
    assert KEY not in caught.value.failure.message
    return caught.value.failure


async def test_a_response_streams_its_text_and_ends_with_items_and_usage(model_server):
    call = model_server.function_call("exec_command", {"cmd": "ls"}, "call_1")
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 8},
        "total_tokens": 120,
    }
    model_server.add_responses(model_server.message("Looking."), call, usage=usage)
    events = await ask(model_server)
    assert ResponseTextDelta(item_id="msg_1", text="Looking.") in events
    assert [event.item for event in events if isinstance(event, ResponseItemDone)] == [
        Message(role="assistant", content=(OutputText(text="Looking."),), id="msg_1"),
        FunctionCall(call_id="call_1", name="exec_command", arguments='{"cmd":"ls"}'),
    ]
    last = events[-1]
    assert isinstance(last, ResponseFinished)
    assert last.usage == TokenUsage(
        input_tokens=100,
        cached_input_tokens=60,
        output_tokens=20,
        reasoning_output_tokens=8,
        total_tokens=120,
    )
    assert last.first_byte_s is not None


async def test_the_request_has_the_keys_of_the_reference_and_what_agents_share_comes_first(
    model_server,
):
    model_server.add_responses(model_server.message("ok"))
    await ask(model_server)
    (seen,) = model_server.requests
    assert seen.target == "/v1/responses"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert list(seen.json) == [
        *("model", "instructions", "stream", "tools", "tool_choice", "parallel_tool_calls"),
        *("reasoning", "store", "include", "input", "prompt_cache_key"),
    ]
    assert seen.json["prompt_cache_key"] == "agent-1"
    assert seen.json["include"] == ["reasoning.encrypted_content"]
    assert seen.json["store"] is False
    content = [{"type": "input_text", "text": "hello"}]
    assert seen.json["input"] == [{"type": "message", "role": "user", "content": content}]


async def test_chat_streams_text_calls_and_usage(model_server):
    model_server.add_chat(
        {"content": "Loo"},
        {"content": "king."},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "exec_command"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"cmd":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"ls"}'}}]},
        finish="tool_calls",
    )
    events = await ask(model_server, wire="chat")
    assert [event.item for event in events if isinstance(event, ResponseItemDone)] == [
        Message(role="assistant", content=(OutputText(text="Looking."),), id="msg_id1"),
        FunctionCall(call_id="a", name="exec_command", arguments='{"cmd":"ls"}'),
    ]
    assert events[-1].usage == TokenUsage(input_tokens=10, output_tokens=5, total_tokens=15)
    (seen,) = model_server.requests
    assert seen.target == "/v1/chat/completions"
    assert seen.json["stream_options"] == {"include_usage": True}
    assert seen.json["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
    ]


async def test_a_wrong_key_is_final_and_the_text_names_the_variable(model_server):
    error = {"message": f"Incorrect API key provided: {KEY[:7]}…", "code": "invalid_api_key"}
    model_server.add_error(401, error)
    failure = await failure_of(model_server)
    assert (failure.kind, failure.retryable, failure.http_status) == ("unauthorized", False, 401)
    assert "TEST_KEY" in failure.message and "Test answered 401 Unauthorized" in failure.message
    assert len(model_server.requests) == 1


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"message": "bad field"}, "bad_request"),
        (
            400,
            {"code": "context_length_exceeded", "message": "too long"},
            "context_window_exceeded",
        ),
        (429, {"type": "usage_limit_reached", "message": "plan"}, "usage_limit_exceeded"),
        (429, {"code": "insufficient_quota", "message": "pay"}, "usage_limit_exceeded"),
        (404, {"message": "model 'm' not found"}, "bad_request"),
    ],
)
async def test_refusals_that_are_final_are_not_tried_again(model_server, status, error, kind):
    model_server.add_error(status, error)
    failure = await failure_of(model_server)
    assert (failure.kind, failure.retryable, failure.http_status) == (kind, False, status)
    assert error["message"] in failure.message
    assert len(model_server.requests) == 1


async def test_two_server_errors_are_tried_again_without_a_word(model_server):
    model_server.add_error(500)
    model_server.add_error(502)
    model_server.add_responses(model_server.message("ok"))
    events = await ask(model_server)
    assert not any(isinstance(event, RequestWaiting) for event in events)
    assert len(model_server.requests) == 3


async def test_server_errors_end_after_the_retries_and_stay_retryable(model_server):
    for _ in range(2):
        model_server.add_error(500, {"message": "kaputt"})
    failure = await failure_of(model_server, request_max_retries=1)
    assert (failure.retryable, failure.http_status) == (True, 500)
    assert "kaputt" in failure.message


async def test_429_waits_as_long_as_it_says_and_people_hear_of_it(model_server):
    model_server.add_error(429, {"message": "slow down"}, retry_after="0.2")
    model_server.add_responses(model_server.message("ok"))
    told = []
    begun = trio.current_time()
    events = await ask(model_server, announce=told.append)
    assert trio.current_time() - begun >= 0.2
    (held,) = [event for event in events if isinstance(event, RequestWaiting)]
    assert 0.1 < held.delay_s <= 0.2 and "429" in held.reason
    assert [word.delay_s is None for word in told] == [False, True]
    assert len(model_server.requests) == 2


async def test_an_overload_inside_the_stream_is_retried_after_the_delay_it_names(model_server):
    error = {"code": "rate_limit_exceeded", "message": "Please try again in 150ms."}
    model_server.add(model_server.sse({"type": "response.failed", "response": {"error": error}}))
    model_server.add_responses(model_server.message("ok"))
    begun = trio.current_time()
    await ask(model_server)
    assert trio.current_time() - begun >= 0.15
    assert len(model_server.requests) == 2


@pytest.mark.parametrize(
    "damage", [b"data: {not json}\n\n", b"data: \xff\xfe\n\n", b"nonsense\n\n"]
)
async def test_a_damaged_line_cuts_the_stream_and_nothing_after_it_is_used(model_server, damage):
    good = model_server.responses(model_server.message("ok"))
    model_server.add(model_server.sse({"type": "response.created"}), b": hi\n\n", damage, good)
    failure = await failure_of(model_server)
    assert (failure.kind, failure.retryable) == ("stream_disconnected", True)
    assert "cannot be read" in failure.message and "not json" not in failure.message


async def test_a_page_instead_of_a_stream_says_what_to_check(model_server):
    model_server.add(b"<html>Welcome to nginx</html>", content_type="text/html")
    failure = await failure_of(model_server)
    assert failure.kind == "bad_response"
    assert "Welcome to nginx" in failure.message and "base_url" in failure.message


@pytest.mark.parametrize("ending", [(), ("close",)], ids=["clean end", "cut"])
@pytest.mark.parametrize("wire", ["responses", "chat"])
async def test_an_early_end_is_a_lost_connection(model_server, wire, ending):
    delta = {"type": "response.output_text.delta", "delta": "half"}
    chunk = delta if wire == "responses" else {"choices": [{"delta": {"content": "half"}}]}
    model_server.add(model_server.sse(chunk) + b'data: {"type":"resp', *ending)
    failure = await failure_of(model_server, wire=wire)
    assert (failure.kind, failure.retryable) == ("stream_disconnected", True)


async def test_a_stalled_stream_is_cut_after_the_idle_timeout(model_server):
    model_server.add(model_server.sse({"type": "response.created"}), "hang")
    failure = await failure_of(model_server, stream_idle_timeout_ms=100)
    assert (failure.kind, failure.retryable) == ("idle_timeout", True)
    with trio.fail_after(20):
        await model_server.hung_up.wait()


@pytest.mark.parametrize("wire", ["responses", "chat"])
async def test_a_stream_of_keep_alives_is_cut_at_its_bound_and_the_server_is_named(
    model_server, wire
):
    ping = {"type": "response.in_progress"} if wire == "responses" else {"choices": []}
    alive = (b": still here\n\n", 0.02, model_server.sse(ping), 0.02)
    model_server.add(*alive * 200)
    failure = await failure_of(model_server, wire=wire, stream_idle_timeout_ms=50)
    assert (failure.kind, failure.retryable) == ("idle_timeout", False)
    assert "Test sent only keep-alives for 0.005 min" in failure.message
    with trio.fail_after(2):
        await model_server.hung_up.wait()


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
@pytest.mark.parametrize("wire", ["responses", "chat"])
async def test_a_packed_stream_is_read_as_any_other(model_server, wire, packing):
    body = model_server.responses(model_server.message("ok"))
    if wire == "chat":
        body = model_server.chat({"content": "ok"})
    packed = (gzip if packing == "gzip" else zlib).compress(body)
    model_server.add(*[packed[at : at + 9] for at in range(0, len(packed), 9)])
    model_server.replies[-1] = model_server.replies[-1]._replace(
        headers=(("content-type", "text/event-stream"), ("content-encoding", packing))
    )
    events = await ask(model_server, wire=wire)
    assert "ok" in [event.text for event in events if isinstance(event, ResponseTextDelta)]


@pytest.mark.parametrize(
    ("packing", "body"),
    [("br", b"\x1b\x00\x80"), ("gzip", b"\x1f\x8b\xff raw"), ("", b"\x1f\x8b\xff")],
)
async def test_a_body_that_cannot_be_unpacked_is_refused_without_its_bytes(
    model_server, packing, body
):
    model_server.add(body, content_encoding=packing)
    failure = await failure_of(model_server, request_max_retries=0)
    assert failure.kind == "bad_response"
    assert failure.message.isprintable() and "raw" not in failure.message


async def test_an_event_of_twenty_megabytes_is_an_error_and_not_memory(model_server):
    piece = b"x" * (1 << 20)
    model_server.add(b"data: ", *([piece] * 20), b"\n\n")
    failure = await failure_of(model_server)
    assert (failure.kind, failure.retryable) == ("bad_response", False)
    assert "16,777,216" in failure.message


async def test_a_redirect_is_not_followed_with_a_key(model_server):
    model_server.add(b"", status=307, location=f"{model_server.origin}/elsewhere?token=secret")
    failure = await failure_of(model_server)
    assert failure.kind == "bad_request" and "/elsewhere" in failure.message
    assert "secret" not in failure.message
    assert len(model_server.requests) == 1


async def test_a_server_that_never_answered_is_given_up_soon_and_for_good(model_server):
    class Nobody:
        url = "http://127.0.0.1:9/v1"

    failure = await failure_of(Nobody, request_max_retries=1)
    assert (failure.kind, failure.retryable) == ("connection_failed", False)
    assert "127.0.0.1:9" in failure.message and "check its address" in failure.message


async def test_leaving_a_stream_closes_its_connection_at_once(model_server):
    delta = {"type": "response.output_text.delta", "delta": "a"}
    model_server.add(model_server.sse(delta), "hang")
    async with backend(model_server) as able:
        with trio.fail_after(20):
            async with aclosing(able.sample(rendered())) as events:
                await anext(events)
            await model_server.hung_up.wait()


async def test_a_connection_is_used_again(model_server):
    model_server.default = None
    for _ in range(3):
        model_server.add_responses(model_server.message("ok"))
    async with backend(model_server) as able:
        with trio.fail_after(30):
            for _ in range(3):
                async with aclosing(able.sample(rendered())) as events:
                    assert [event async for event in events]
    assert model_server.connections == 1
