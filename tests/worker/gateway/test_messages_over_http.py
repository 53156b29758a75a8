"""The Messages wire against a real server on loopback: requests, refusals, every bad input."""

from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.items import FunctionCall, Message, encode_item, text_message
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest, ToolSpec, chain_digest
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.worker.gateway.backend import RequestWaiting, ResponseItemDone, SampleError
from swarm.worker.gateway.conversations import Conversation, ConversationOwner
from swarm.worker.gateway.http.http_client import open_http
from swarm.worker.gateway.http_source import HttpSource
from swarm.worker.gateway.messages_head import encode_head
from swarm.worker.gateway.messages_request import MessagesStore
from swarm.worker.gateway.provider_keys import ProviderKeys
from swarm.worker.gateway.providers import all_providers, built_in_providers
from swarm.worker.gateway.rate_limit_headers import REFILL_SHARE, asked_delay_s, spent_allowance_s
from swarm.worker.gateway.rate_limiter import RateLimiter
from swarm.worker.gateway.request_encoding import EncodingContext, RequestHeadCache
from swarm.worker.gateway.request_headers import Unsigned, own_headers
from swarm.worker.gateway.retry_policy import RetryingBackend

POST = Unsigned("POST", "https://models.example.com/v1/messages")
KEY = "sk-ant-test-0123456789abcdefghij"
TOOLS = (ToolSpec(name="exec_command", description="Run.", parameters=b'{"type":"object"}'),)
MODEL = ModelInfo(slug="claude-x", provider="p", wire="messages", reasoning=True, thinking="always")
TEXT = {"type": "text", "text": "Looking."}


class Talk:
    """One agent's conversation, request by request."""

    def __init__(self):
        rendering = EncodingContext(blobs_dir=Path("/nowhere"), model=MODEL)
        store = MessagesStore(rendering, RequestHeadCache(encode_head))
        self._conversation = Conversation(ConversationOwner("agent-1", "/root", MODEL), store)
        self._digest, self._count = b"", 0

    def request(self, *items):
        raws = tuple(msgspec.Raw(encode_item(item)) for item in items)
        request = SampleRequest(
            request_id=1,
            turn_id="t",
            instructions="Be brief.",
            tools=TOOLS,
            items=raws,
            base_count=self._count,
            base_digest=self._digest,
        )
        assert self._conversation.accept(request)
        for raw in raws:
            self._digest = chain_digest(self._digest, bytes(raw))
        self._count += len(raws)
        return self._conversation.render(request, ordinal=1)


def spec(server, **settings):
    told = {"id": "p", "name": "Test", "base_url": server.url, "wire_api": "messages"}
    return ProviderSpec(**{**told, "env_key": "TEST_KEY", **settings})


@asynccontextmanager
async def backend(server, **settings):
    provider = spec(server, **settings)
    ids = iter(range(1, 1000))
    async with open_http(provider.base_url) as client:
        source = HttpSource(
            client, provider, ProviderKeys({"TEST_KEY": KEY}), lambda: f"id{next(ids)}"
        )
        gate = RateLimiter(announce=lambda _: None, noise=lambda: 0.0)
        yield RetryingBackend(source, gate, max_retries=provider.request_max_retries)


async def ask(server, *, request=None, **settings):
    request = request or Talk().request(text_message("user", "hello"))
    with trio.fail_after(10):
        async with (
            backend(server, **settings) as able,
            aclosing(able.sample(request)) as events,
        ):
            return [event async for event in events]


async def failure_of(server, **settings):
    with pytest.raises(SampleError) as caught:
        await ask(server, **settings)
    assert KEY not in caught.value.failure.message
    return caught.value.failure


def items_of(events):
    return [event.item for event in events if isinstance(event, ResponseItemDone)]


async def test_a_response_comes_as_items_and_the_request_is_as_the_wire_wants(model_server):
    use = {"type": "tool_use", "id": "toolu_1", "name": "exec_command", "input": {"cmd": "ls"}}
    model_server.add_messages(TEXT, use, stop="tool_use")
    message, call = items_of(await ask(model_server))
    assert isinstance(message, Message)
    assert call == FunctionCall(call_id="toolu_1", name="exec_command", arguments='{"cmd":"ls"}')
    (seen,) = model_server.requests
    assert seen.target == "/v1/messages"
    assert seen.headers["x-api-key"] == KEY
    assert seen.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in seen.headers
    assert seen.json["stream"] is True
    assert seen.json["messages"][0]["content"][0]["text"] == "hello"


async def test_thinking_goes_back_byte_by_byte_as_it_came(model_server):
    thinking = {"type": "thinking", "thinking": 'Häm\n"…"', "signature": "S+/=="}
    hidden = {"type": "redacted_thinking", "data": "R+/=="}
    use = {"type": "tool_use", "id": "toolu_1", "name": "exec_command", "input": {"cmd": "ls"}}
    model_server.add_messages(thinking, hidden, use, stop="tool_use")
    model_server.add_messages(TEXT)
    talk = Talk()
    answered = items_of(await ask(model_server, request=talk.request(text_message("user", "go"))))
    await ask(model_server, request=talk.request(*answered))
    assert model_server.requests[1].json["messages"][1]["content"] == [thinking, hidden, use]


async def test_thinking_that_is_not_taken_back_is_left_out_and_the_request_goes_again(
    model_server,
):
    thinking = {"type": "thinking", "thinking": "hm", "signature": "S"}
    model_server.add_messages(thinking, TEXT)
    text = "messages.1.content.0: Invalid `signature` in `thinking` block. It is bound elsewhere."
    model_server.add_error(400, {"type": "invalid_request_error", "message": text})
    model_server.add_messages(TEXT)
    model_server.add_messages(TEXT)
    talk = Talk()
    answered = items_of(await ask(model_server, request=talk.request(text_message("user", "go"))))
    request = talk.request(*answered, text_message("user", "on"))
    assert len(items_of(await ask(model_server, request=request))) == 1
    await ask(model_server, request=talk.request(text_message("user", "and on")))
    kinds = [
        [block["type"] for block in seen.json["messages"][1]["content"]]
        for seen in model_server.requests[1:]
    ]
    assert kinds == [["thinking", "text"], ["text"], ["text"]]


async def test_a_400_about_thinking_without_any_to_leave_out_is_final(model_server):
    for _ in range(2):
        model_server.add_error(400, {"message": "a final message must start with a thinking block"})
    assert (await failure_of(model_server)).kind == "bad_request"
    assert len(model_server.requests) == 1


@pytest.mark.parametrize(
    ("status", "type_", "words", "kind"),
    [
        (401, "authentication_error", "invalid x-api-key", "unauthorized"),
        (403, "permission_error", "no access", "unauthorized"),
        (404, "not_found_error", "model: claude-y", "bad_request"),
        (413, "request_too_large", "too large", "bad_request"),
        (400, "invalid_request_error", "prompt is too long", "context_window_exceeded"),
        (400, "invalid_request_error", "Your credit balance is too low", "usage_limit_exceeded"),
        (402, "billing_error", "pay first", "usage_limit_exceeded"),
        (400, "invalid_request_error", "Could not process image", "invalid_image"),
        (400, "invalid_request_error", "image exceeds 5 MB maximum", "invalid_image"),
    ],
)  # fmt: skip
async def test_refusals_have_their_kinds_and_name_the_request(
    model_server, status, type_, words, kind
):
    error = {"type": type_, "message": words}
    model_server.add_error(status, error, request_id="req_011")
    failure = await failure_of(model_server)
    assert (failure.kind, failure.retryable, failure.http_status) == (kind, False, status)
    assert words in failure.message
    assert "req_011" in failure.message
    assert len(model_server.requests) == 1


@pytest.mark.parametrize("status", [429, 529])
async def test_pushed_back_requests_wait_as_long_as_the_server_asks(model_server, status):
    model_server.add_error(status, {"type": "overloaded_error"}, retry_after="0.05")
    model_server.add_messages(TEXT)
    events = await ask(model_server)
    assert [event.delay_s for event in events if isinstance(event, RequestWaiting)] == [
        pytest.approx(0.05, abs=0.05)
    ]
    assert len(model_server.requests) == 2


async def test_an_overload_inside_the_stream_closes_the_door_for_all(model_server):
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    model_server.add(model_server.sse(error))
    model_server.add_messages(TEXT)
    events = await ask(model_server)
    assert any(isinstance(event, RequestWaiting) for event in events)
    assert len(items_of(events)) == 1


def test_allowances_in_the_headers_are_read():
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    full = (now + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": full,
        "anthropic-ratelimit-tokens-remaining": "1000",
        "anthropic-ratelimit-tokens-reset": full,
    }
    assert spent_allowance_s(told, now.timestamp()) == pytest.approx(60 * REFILL_SHARE)
    assert asked_delay_s(told | {"retry-after": "7"}, "", now.timestamp()) == 7
    for odd in ("", "soon", "9999999-99-99", "2020-01-01T00:00:00Z"):
        broken = told | {"anthropic-ratelimit-requests-reset": odd}
        assert spent_allowance_s(broken, now.timestamp()) is None


# --- bad input ---------------------------------------------------------------------------------


async def test_an_event_of_20_mb_is_an_error_and_not_memory(model_server):
    huge = b'data: {"type":"content_block_delta","delta":{"text":"' + b"x" * (20 << 20)
    model_server.add(huge)
    failure = await failure_of(model_server)
    assert failure.kind == "bad_response"
    assert "over 16" in failure.message


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe not a stream",
        b"<html><body>Welcome</body></html>",
        b'data: {"type":"content_block_st',
        b"data: \xc3\x28\n\ndata: [1,2]\n\ndata: null\n\n",
        b"",
    ],
)
async def test_garbage_is_a_broken_response_that_may_be_asked_again(model_server, garbage):
    model_server.add(garbage)
    failure = await failure_of(model_server)
    assert failure.kind in {"bad_response", "stream_disconnected"}
    assert failure.retryable


async def test_a_stream_that_closes_early_keeps_what_was_whole(model_server):
    whole = model_server.messages(TEXT)
    model_server.add(whole[: whole.index(b"event: message_delta")], "close")
    told = []
    with pytest.raises(SampleError) as caught, trio.fail_after(30):
        async with (
            backend(model_server) as able,
            aclosing(able.sample(Talk().request(text_message("user", "x")))) as events,
        ):
            async for event in events:
                told += [event]
    assert caught.value.failure.kind == "stream_disconnected"
    assert len(items_of(told)) == 1


async def test_a_stream_that_hangs_is_cut_after_its_idle_time_though_lines_were_split(
    model_server,
):
    model_server.add(model_server.messages(TEXT)[:150], "hang")
    failure = await failure_of(model_server, stream_idle_timeout_ms=100)
    assert failure.kind == "idle_timeout"


async def test_events_may_be_split_at_any_byte(model_server):
    whole = model_server.messages({"type": "text", "text": "Grüße …"})
    model_server.add(*(whole[place : place + 1] for place in range(len(whole))))
    (message,) = items_of(await ask(model_server))
    assert message.content[0].text == "Grüße …"


# --- the provider ------------------------------------------------------------------------------


def test_the_key_goes_into_the_header_that_the_wire_or_the_configuration_names():
    keys = {"K": KEY}
    ours = ProviderSpec(id="p", name="P", wire_api="messages", env_key="K")
    assert own_headers(ours, keys, POST)["x-api-key"] == KEY
    bearer = msgspec.structs.replace(ours, key_header="Authorization")
    assert own_headers(bearer, keys, POST)["authorization"] == f"Bearer {KEY}"
    azure = ProviderSpec(id="p", name="P", wire_api="responses", env_key="K", key_header="api-key")
    assert own_headers(azure, keys, POST) == {"api-key": KEY}
    dated = msgspec.structs.replace(ours, http_headers={"Anthropic-Version": "2030-01-01"})
    assert own_headers(dated, keys, POST)["anthropic-version"] == "2030-01-01"


@pytest.mark.parametrize(
    ("told", "url"),
    [
        (None, "https://api.anthropic.com/v1"),
        ("", "https://api.anthropic.com/v1"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9/v1"),
        ("http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1"),
        ("https://x.example/anthropic/", "https://x.example/anthropic/v1"),
    ],
)
def test_the_address_may_be_written_with_and_without_its_version(told, url):
    environment = {} if told is None else {"ANTHROPIC_BASE_URL": told}
    found = {one.id: one for one in built_in_providers(environment)}
    assert found["anthropic"].base_url == url
    if told:
        mine = ProviderSpec(id="mine", name="M", base_url=told, wire_api="messages")
        assert all_providers((mine,))["mine"].base_url == url
