"""A role's sampling on each wire; what a server refuses is left out, and said once."""

from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.items import encode_item, text_message
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest
from swarm.mailbox.protocol.settings import SamplingSettings
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.worker.gateway import chat_request, messages_head, responses_request
from swarm.worker.gateway.backend import RequestWaiting, SampleError
from swarm.worker.gateway.conversations import Conversation, ConversationOwner
from swarm.worker.gateway.http.http_client import open_http
from swarm.worker.gateway.http_source import HttpSource
from swarm.worker.gateway.provider_keys import ProviderKeys
from swarm.worker.gateway.request_encoding import EncodingContext, HeadKey, RequestHeadCache
from swarm.worker.gateway.sampling_fields import SamplingFields

ALL = SamplingSettings(
    temperature=0.2, top_p=0.9, top_k=20, min_p=0.1, presence_penalty=0.5, frequency_penalty=-0.5,
    repeat_penalty=1.1, seed=7,
)  # fmt: skip
SOME = SamplingSettings(temperature=0.2, top_p=0.9, top_k=20)
HEADS = {
    "responses": responses_request.encode_head,
    "chat": chat_request.encode_head,
    "local": chat_request.encode_head,
    "messages": messages_head.encode_head,
}


NAMES = set(ALL.__struct_fields__)


def kept_of(sampling):
    return {name for name in NAMES if getattr(sampling, name) is not None}


def model_of(wire):
    return ModelInfo(slug="m", provider="p", wire=wire)


@pytest.mark.parametrize(
    ("wire", "names"),
    [
        ("responses", {"temperature", "top_p"}),
        ("messages", {"temperature", "top_p", "top_k"}),
        ("chat", NAMES),
        ("local", NAMES),
    ],
)
def test_each_wire_carries_the_fields_that_it_has(wire, names):
    model = model_of(wire)
    kept = SamplingFields().accepted(model, ALL)
    assert kept_of(kept) == names
    head = HEADS[wire](HeadKey(model=model, instructions="i", sampling=kept)).before
    for name, value in msgspec.structs.asdict(ALL).items():
        assert (f'"{name}":{value}' in head.decode()) is (name in names)


@pytest.mark.parametrize("wire", HEADS)
def test_without_sampling_a_request_names_none_of_its_fields(wire):
    model = model_of(wire)
    head = HEADS[wire](HeadKey(model=model, instructions="i")).before.decode()
    unset = NAMES - ({"temperature", "seed"} if wire == "local" else set())
    assert not any(f'"{name}"' in head for name in unset)


def rendered(fields, *, wire="chat", sampling=SOME):
    model = model_of(wire)
    context = EncodingContext(blobs_dir=Path("/nowhere"), model=model)
    if wire == "chat":
        store = chat_request.ChatStore(context, RequestHeadCache(chat_request.encode_head))
    else:
        store = responses_request.ResponsesStore(
            context, RequestHeadCache(responses_request.encode_head)
        )
    conversation = Conversation(ConversationOwner("agent-1", "/root", model), store, fields)
    request = SampleRequest(
        request_id=1, turn_id="t", instructions="Be brief.", sampling=sampling,
        items=(msgspec.Raw(encode_item(text_message("user", "hello"))),),
    )  # fmt: skip
    assert conversation.accept(request)
    return conversation.render(request, ordinal=1)


async def ask(server, request):
    """All events of one response of this server; SampleError if it fails."""
    wire = request.model.wire
    provider = ProviderSpec(id="p", name="Test", base_url=server.url, wire_api=wire)
    with trio.fail_after(30):
        async with open_http(provider.base_url) as client:
            source = HttpSource(client, provider, ProviderKeys({}), lambda: "id")
            async with aclosing(source.attempt(request)) as events:
                return [event async for event in events]


def notices(events):
    return [event.reason for event in events if isinstance(event, RequestWaiting)]


async def test_a_refused_field_is_left_out_with_one_notice_for_all_agents_of_the_run(model_server):
    refusal = {"message": "Unsupported parameter: 'temperature' is not supported", "code": "x"}
    model_server.add_error(400, refusal)
    model_server.add_chat({"content": "one"})
    model_server.add_chat({"content": "two"})
    fields = SamplingFields()
    first = await ask(model_server, rendered(fields))
    second = await ask(model_server, rendered(fields))
    assert notices(first) == ["p m does not take `temperature`: left out of its requests"]
    assert notices(second) == []
    sent = [set(seen.json) & NAMES for seen in model_server.requests]
    assert sent == [{"temperature", "top_p", "top_k"}, {"top_p", "top_k"}, {"top_p", "top_k"}]


async def test_fields_that_the_wire_does_not_have_are_said_once_and_not_sent(model_server):
    for _ in range(2):
        model_server.add_responses(model_server.message("x"))
    fields = SamplingFields()
    said = [notices(await ask(model_server, rendered(fields, wire="responses"))) for _ in range(2)]
    assert said == [["p m does not take `top_k`: left out of its requests"], []]
    assert all("top_k" not in seen.json for seen in model_server.requests)
    assert all(seen.json["temperature"] == 0.2 for seen in model_server.requests)


async def test_a_server_that_refuses_for_ever_is_asked_once_more_for_each_field(model_server):
    for _ in range(4):
        model_server.add_error(400, {"message": "temperature, top_p, top_k: no"})
    with pytest.raises(SampleError, match="top_k: no"):
        await ask(model_server, rendered(SamplingFields()))
    assert len(model_server.requests) == 2
