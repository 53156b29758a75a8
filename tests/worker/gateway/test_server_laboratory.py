"""Each server that people use gets a conversation that it takes: parallel calls, an image, a
refused call, a poisoned history, a fallback from and to another, a compaction, a
resume. What it refused once is learned, and what it says when it cannot answer is known.
"""

import hashlib
import json
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
import trio

from support.servers.cloud_access import AWS, service_account
from support.servers.odd_server import CALLS, OddServer, load_errors, load_profiles
from swarm.mailbox.parts.clouds.cloud_messages import CloudCredentials
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    Origin,
    Reasoning,
    encode_item,
    text_message,
    text_of,
)
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest, ToolSpec
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.worker.gateway import chat_request, messages_head, messages_request, responses_request
from swarm.worker.gateway.backend import RequestWaiting, ResponseItemDone, SampleError
from swarm.worker.gateway.conversations import Conversation, ConversationOwner
from swarm.worker.gateway.failures import FailureOrigin, classify_status
from swarm.worker.gateway.fit.dialect import LearnedDialects
from swarm.worker.gateway.http.http_client import open_http
from swarm.worker.gateway.http_source import MOST_REFITS, HttpSource
from swarm.worker.gateway.provider_keys import ProviderKeys
from swarm.worker.gateway.request_encoding import EncodingContext, RequestHeadCache

PROFILES = {profile.name: profile for profile in load_profiles()}
ODD_SCHEMA = (
    b'{"anyOf":[{"properties":{"list":{"type":"array"}},"required":["list"]},'
    b'{"properties":{"text":{"type":"string"}}}]}'
)
TOOLS = (
    ToolSpec(name="exec_command", description="Run.", parameters=b'{"type":"object"}'),
    ToolSpec(name="list_dir", description="List.", parameters=b'{"type":"object"}'),
    ToolSpec(name="odd", description="Odd.", parameters=ODD_SCHEMA),
)
ELSEWHERE = Origin(provider="elsewhere", model="x", fields='{"extra_content":{"seal":"theirs"}}')
PICTURE, BLOBS = b"\x89PNG\r\n\x1a\n", Path("/nowhere")
LONG_ID = "toolu|" + "a:b" * 30


def poisoned():
    """What another provider, or a model without much sense, left in the history."""
    sealed = Reasoning(encrypted_content="theirs", origin=ELSEWHERE)
    thought = Reasoning(content=("hm",), origin=ELSEWHERE)
    return [
        thought,
        sealed,
        FunctionCall(call_id=LONG_ID, name="container.exec", arguments='{"cmd', origin=ELSEWHERE),
        FunctionCall(call_id="call_1", name="repo browser", arguments="[1]", origin=ELSEWHERE),
        FunctionCallOutput(call_id=LONG_ID, output="no"),
        FunctionCallOutput(call_id="call_1", output="no such tool"),
        text_message("developer", "notice"),
        CustomToolCall(call_id="call_2", name="apply_patch", input="*** Begin Patch"),
        CustomToolCallOutput(call_id="call_2", output="done"),
        text_message("user", "go on"),
        text_message("user", "and hurry"),
    ]


class Play:
    """One conversation with one server."""

    def __init__(self, profile, server, dialects=None):
        self.profile = profile
        self.odd = OddServer(profile, server)
        server.choose = self.odd
        self.url = server.url
        self.items = [text_message("developer", "rules"), text_message("user", "environment")]
        self.notices = []
        self.dialects = dialects or LearnedDialects()
        self.resume()

    def resume(self):
        """A new process: it holds nothing."""
        is_anthropic = self.profile.name == "anthropic"
        thinking = "" if not is_anthropic else "always"
        self.model = ModelInfo(
            slug=self.profile.model, provider="p", wire=self.profile.wire, reasoning=is_anthropic,
            thinking=thinking, parallel_tool_calls=self.profile.wire != "messages",
        )  # fmt: skip
        self.conversation = Conversation(
            ConversationOwner("agent-1", "/root", self.model), self.store(), None, self.dialects
        )

    def store(self):
        context = EncodingContext(blobs_dir=BLOBS, model=self.model)
        match self.profile.wire:
            case "chat":
                heads = RequestHeadCache(chat_request.encode_head)
                return chat_request.ChatStore(context, heads)
            case "messages":
                heads = RequestHeadCache(messages_head.encode_head)
                return messages_request.MessagesStore(context, heads)
            case _:
                heads = RequestHeadCache(responses_request.encode_head)
                return responses_request.ResponsesStore(context, heads)

    def render(self):
        request = SampleRequest(
            request_id=1, turn_id="t", instructions="Be brief.", tools=TOOLS,
            items=tuple(msgspec.Raw(encode_item(item)) for item in self.items),
        )  # fmt: skip
        assert self.conversation.accept(request)
        return self.conversation.render(request, ordinal=1)

    async def ask(self):
        """One turn: its items are added to the history. Returns how often the server refused."""
        before = len(self.odd.refusals)
        spec = ProviderSpec(
            id="p", name="P", base_url=self.url, wire_api=self.profile.wire, env_key=None
        )
        keys = ProviderKeys({})
        if self.profile.access:
            spec, keys = with_cloud(spec, self.profile)
        ids = iter(range(1000))
        made = []
        with trio.fail_after(30):
            async with open_http(self.url) as client:
                source = HttpSource(client, spec, keys, lambda: f"n{next(ids)}")
                async with aclosing(source.attempt(self.render())) as events:
                    async for event in events:
                        if isinstance(event, ResponseItemDone):
                            made.append(event.item)
                        elif isinstance(event, RequestWaiting):
                            self.notices.append(event.reason)
        self.items += made
        calls = [item for item in made if isinstance(item, FunctionCall)]
        if self.odd.wants_calls:
            wanted = CALLS[: 1 + self.odd.answers % 2]
            found = [(call.name, msgspec.json.decode(call.arguments)) for call in calls]
            assert found == list(wanted)
        self.items += [FunctionCallOutput(call_id=call.call_id, output="ok") for call in calls]
        return len(self.odd.refusals) - before


_clouds = {}


def with_cloud(spec, profile):
    """The provider with the credentials of its cloud, found once for each profile."""
    if profile.name not in _clouds:
        file = BLOBS / "service-account.json"
        file.write_text(service_account(spec.base_url))
        given = CloudCredentials(
            what="model_providers.p", variables=tuple(AWS), credentials_file=str(file),
            scopes=("https://www.googleapis.com/auth/cloud-platform",), **profile.access,
        )  # fmt: skip
        _clouds[profile.name] = given, ProviderKeys(AWS)
    credentials, keys = _clouds[profile.name]
    return msgspec.structs.replace(spec, env_key="cloud", credentials=credentials), keys


def saying(when, profile):
    """What this server says at that moment; all ways of saying it."""
    return [one for one in load_errors() if (one.server, one.when) == (profile.server, when)]


_histories = {}


async def history_of(profile, model_server):
    """A conversation of two turns with that server, as another provider's; played once."""
    if profile.name not in _histories:
        play = Play(profile, model_server)
        await play.ask()
        await play.ask()
        _histories[profile.name] = elsewhere(play.items)
    return _histories[profile.name]


def elsewhere(items):
    return [
        msgspec.structs.replace(item, origin=_elsewhere(item)) if _elsewhere(item) else item
        for item in items
    ]


async def failure_of(play, error):
    play.odd.errors = [error]
    with pytest.raises(SampleError) as caught:
        await play.ask()
    assert play.odd.errors == []
    return caught.value.failure


def refused(call_id):
    """A call that the reviewer refused, and what its output says."""
    call = FunctionCall(call_id=call_id, name="exec_command", arguments='{"cmd":"rm -r x"}')
    said = "Refused by the reviewer: it deletes what nobody asked to delete."
    return [call, FunctionCallOutput(call_id=call_id, output=said, success=False)]


@pytest.fixture(autouse=True)
def picture(tmp_path, monkeypatch):
    """The image of the conversations."""
    name = hashlib.sha256(PICTURE).hexdigest()
    (tmp_path / name).write_bytes(PICTURE)
    monkeypatch.setattr(f"{__name__}.BLOBS", tmp_path)


def image():
    seen = InputImage(image_url=f"blob:{hashlib.sha256(PICTURE).hexdigest()};image/png")
    return Message(role="user", content=(InputText(text="What is this?"), seen))


@pytest.mark.parametrize("name", PROFILES)
async def test_every_server_takes_a_conversation_of_ten_turns(name, model_server):
    play = Play(PROFILES[name], model_server)
    assert await play.ask() <= MOST_REFITS
    await play.ask()
    play.items.append(image())
    assert await play.ask() <= MOST_REFITS
    sees = all(rule.rule != "images" for rule in play.profile.refuses)
    assert ("iVBORw0KGgo" in json.dumps(play.odd.accepted[-1])) == sees
    play.items += refused("call_refused")
    assert await play.ask() <= MOST_REFITS
    play.items.append(text_message("developer", "AGENTS.md of a folder below"))
    assert await play.ask() <= MOST_REFITS
    play.items += poisoned()
    assert await play.ask() <= MOST_REFITS
    assert [await play.ask() for _ in range(2)] == [0, 0]  # what was learned is kept
    play.resume()
    assert await play.ask() == 0
    for error in saying("too long", play.profile):  # each ends in a shorter history
        assert (await failure_of(play, error)).kind == "context_window_exceeded"
    play.items = [*play.items[:2], text_message("user", "summary"), *play.items[-2:]]
    if not isinstance(play.items[-1], FunctionCallOutput):
        del play.items[3:]
    play.resume()
    assert await play.ask() <= 1
    play.odd.wants_calls = False
    play.items.append(text_message("user", "say it"))
    assert await play.ask() == 0
    last = play.items[-1]
    assert isinstance(last, Message) and text_of(last.content) == "Done."
    play.items.append(text_message("user", "again"))
    assert await play.ask() == 0
    assert len(play.notices) == len(set(play.notices))


@pytest.mark.parametrize("name", PROFILES)
async def test_a_fallback_from_every_other_server_goes_on_with_its_history(name, model_server):
    """All histories are sent to this server, with the fields that others gave."""
    dialects = LearnedDialects()
    for other in load_profiles():
        play = Play(PROFILES[name], model_server, dialects)
        play.items = [*await history_of(other, model_server), text_message("user", "go on")]
        model_server.choose = play.odd
        assert await play.ask() <= MOST_REFITS


async def test_a_fallback_to_another_server_and_back_goes_on_everywhere(model_server):
    """Its plan is spent in the middle; another one goes on with its history, and it with that."""
    other = next(one for one in load_profiles() if one.name == "anthropic")
    for profile in load_profiles():
        play = Play(profile, model_server)
        await play.ask()
        for error in saying("spent", profile):
            failure = await failure_of(play, error)
            assert (failure.kind, failure.retryable) == ("usage_limit_exceeded", False), error
        there = Play(other, model_server)
        there.items = elsewhere(play.items)
        await there.ask()
        added = there.items[len(play.items) :]
        play.items += elsewhere(added)
        model_server.choose = play.odd
        assert await play.ask() <= MOST_REFITS
        assert await play.ask() == 0, profile.name


@pytest.mark.parametrize("error", load_errors(), ids=lambda one: f"{one.server}, {one.when}")
def test_what_a_server_says_when_it_cannot_answer_is_known(error):
    failure = classify_status(
        error.status, error.headers, error.body.encode(), origin=FailureOrigin("P")
    )
    kind, retryable = {
        "too long": ("context_window_exceeded", False),
        "spent": ("usage_limit_exceeded", False),
        "rate": ("overloaded", True),
        "overloaded": ("overloaded", True),
    }[error.when]
    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert failure.window_tokens == error.window
    assert failure.retry_after_s == error.after_s
    if error.when == "spent":
        assert (failure.resets_at_unix_s is not None) == error.resets


def test_every_server_that_people_use_has_a_profile_and_says_when_it_cannot_answer():
    servers = {profile.server for profile in load_profiles()} - {""}
    assert servers == {
        "OpenAI", "Azure OpenAI", "Anthropic", "Gemini", "Vertex", "Bedrock", "OpenRouter", "Groq",
        "Mistral", "DeepSeek", "Kimi", "GLM", "Qwen/DashScope", "xAI", "Together", "Fireworks",
        "Copilot", "Ollama", "LM Studio", "llama.cpp", "vLLM", "SGLang", "TGI", "LiteLLM",
    }  # fmt: skip
    said = {(error.server, error.when) for error in load_errors()}
    own = {"LM Studio", "llama.cpp", "vLLM", "SGLang", "TGI"}  # nobody pays for these
    for server in servers:
        assert {(server, "too long"), (server, "overloaded")} <= said
        assert server in own or {(server, "spent"), (server, "rate")} <= said
    assert {server for server, _ in said} == servers


def _elsewhere(item):
    origin = getattr(item, "origin", None)
    return None if origin is None else msgspec.structs.replace(origin, provider="other")


def test_every_profile_names_its_public_source():
    assert all(profile.source for profile in load_profiles())
    assert all(error.source for error in load_errors())
