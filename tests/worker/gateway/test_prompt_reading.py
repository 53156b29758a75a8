"""People are told how far a server has read the prompt, or how long it has been silent."""

import pytest
import trio

from support.gateway_in_memory import Agent, open_gateway
from swarm.mailbox.protocol.sampling import SampleCompleted, SampleWaiting
from swarm.worker.gateway.backend import RequestWaiting, ResponseFinished
from swarm.worker.gateway.chat_stream import ChatStream
from swarm.worker.gateway.prompt_reading import (
    PromptProgress,
    describe_progress,
    describe_silence,
)


@pytest.mark.parametrize(
    ("progress", "told"),
    [
        (PromptProgress(total=1700, processed=1024, time_ms=14_000), "1.0k of 1.7k tokens, 73/s"),
        (PromptProgress(total=23_000, cache=20_000, processed=21_000, time_ms=10_000), "100/s"),
        (PromptProgress(total=1700, processed=1024), "1.0k of 1.7k tokens"),
        (PromptProgress(total=1700, processed=1700, time_ms=1), ""),
        (PromptProgress(total=1700, cache=1600, processed=1650, time_ms=1), ""),
        (PromptProgress(total=1700), ""),
        (PromptProgress(total=-5, processed=9, time_ms=-1), ""),
    ],
)
def test_the_progress_of_a_prompt_is_told_with_its_rate(progress, told):
    assert told in describe_progress(progress) if told else describe_progress(progress) == ""


def test_a_server_that_says_nothing_is_told_of_by_tokens_and_seconds():
    assert describe_silence(7_000, 20.3) == "about 1.8k tokens sent; no word of the model for 20 s"


def test_progress_in_a_stream_is_no_part_of_the_answer():
    stream = ChatStream(provider="p", new_id=lambda: "i", offered=frozenset(), tolerant=False)
    chunk = (
        b'{"choices":[],"prompt_progress":{"total":900,"cache":0,"processed":512,"time_ms":5e3}}'
    )
    assert stream.feed(chunk) == [
        RequestWaiting(reason="reading the prompt: 512 of 900 tokens, 102/s", delay_s=0.0)
    ]
    for odd in (b"7", b'"x"', b'{"total":"many"}', b"[1]", b"null"):
        assert stream.feed(b'{"choices":[],"prompt_progress":' + odd + b"}") == []


async def test_silence_is_told_ever_more_rarely_until_the_first_word(autojump_clock):
    async with open_gateway() as gateway:
        gateway.backend.answers = [[100.0, ResponseFinished()]]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.receive_event()
        began = trio.current_time()
        await agent.ask("hi")
        told = []
        while isinstance(event := await agent.receive_event(), SampleWaiting):
            assert "no word of the model" in event.reason
            told.append(round(trio.current_time() - began))
        assert isinstance(event, SampleCompleted)
        assert told == [10, 30, 70]


async def test_a_server_that_says_why_it_waits_is_not_called_silent(autojump_clock):
    async with open_gateway() as gateway:
        held = RequestWaiting(reason="loading", delay_s=0.0)
        gateway.backend.answers = [[held, 6.0, held, 6.0, held, 6.0, ResponseFinished()]]
        agent = Agent(gateway.server)
        await agent.open()
        await agent.receive_event()
        await agent.ask("hi")
        events = [await agent.receive_event() for _ in range(4)]
        assert [event.reason for event in events[:3]] == ["loading"] * 3
