"""Each server that people use gets a conversation that it takes: parallel calls, a poisoned
history, a fallback from and to another provider, a compaction and a resume. What it refused once is
learned.
"""

from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
import trio

from support.servers.odd_server import CALLS, OddServer, load_profiles
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
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
from swarm.worker.gateway.backend import RequestWaiting, ResponseItemDone
from swarm.worker.gateway.conversations import Conversation, ConversationOwner
from swarm.worker.gateway.fit.dialect import LearnedDialects
from swarm.worker.gateway.http_client import open_http
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
        context = EncodingContext(blobs_dir=Path("/nowhere"), model=self.model)
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
        spec = ProviderSpec(id="p", name="P", base_url=self.url, wire_api=self.profile.wire)
        ids = iter(range(1000))
        made = []
        with trio.fail_after(30):
            async with open_http(self.url) as client:
                source = HttpSource(client, spec, ProviderKeys({}), lambda: f"n{next(ids)}")
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


@pytest.mark.parametrize("name", PROFILES)
async def test_every_server_takes_a_conversation_of_ten_turns(name, model_server):
    play = Play(PROFILES[name], model_server)
    assert await play.ask() <= MOST_REFITS
    await play.ask()
    play.items.append(text_message("developer", "AGENTS.md of a folder below"))
    assert await play.ask() <= MOST_REFITS
    play.items += poisoned()
    assert await play.ask() <= MOST_REFITS
    assert [await play.ask() for _ in range(2)] == [0, 0]  # what was learned is kept
    play.resume()
    assert await play.ask() == 0
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
        first = Play(other, model_server)
        await first.ask()
        await first.ask()
        play = Play(PROFILES[name], model_server, dialects)
        moved = [
            msgspec.structs.replace(item, origin=_elsewhere(item)) if _elsewhere(item) else item
            for item in first.items
        ]
        play.items = [*moved, text_message("user", "go on")]
        assert await play.ask() <= MOST_REFITS


def _elsewhere(item):
    origin = getattr(item, "origin", None)
    return None if origin is None else msgspec.structs.replace(origin, provider="other")


def test_every_profile_names_its_public_source():
    assert all(profile.source for profile in load_profiles())
