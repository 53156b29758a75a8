"""The process of the embedded model: one start for all requests, and what they hear of its end.

The process is a shell script that stands where Python would load the library: it says when it is
up, is "loaded" when it is told, and ends with its standard input. The test answers at its socket.
"""

import hashlib
import os
import re
import signal
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from conftest import ModelServer
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.worker.gateway import local_model
from swarm.worker.gateway.backend import (
    RenderedRequest,
    RequestWaiting,
    ResponseFinished,
    SampleError,
)
from swarm.worker.gateway.http.http_client import HttpClient
from swarm.worker.gateway.local_backend import LocalBackend, model_connections
from swarm.worker.gateway.local_model import LocalModelPlan, LocalModelServer, ModelLoading
from swarm.worker.gateway.weights import known_weights, verify_weights

LIMIT_S = 30
GB = 1_000_000_000
MODEL = ModelInfo(slug="mine", provider="local", wire="local", context_window=1000)
HEADER = b"GGUF" + (3).to_bytes(4, "little") + bytes(16)  # no tensor and no value
SCRIPT = """#!/bin/sh
echo started >>{folder}/starts
read order
echo up >{folder}/up
read word <{folder}/go
echo "$word"
exec cat >/dev/null
"""


class Place:
    """The folder of one test: its model file, the script, and two pipes to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        data = HEADER + b"weights"
        (folder / "mine.gguf").write_bytes(data)
        self.catalogue = folder / "models.toml"
        self.catalogue.write_text(
            f'[weights.mine]\nfile = "mine.gguf"\nsize_bytes = {len(data)}\n'
            f'sha256 = "{hashlib.sha256(data).hexdigest()}"\nsources = []\ncan_call_tools = true\n'
        )
        assert verify_weights(folder / "mine.gguf", known_weights("mine", self.additions))
        self.script = folder / "python"
        self.script.write_text(SCRIPT.format(folder=folder))
        self.script.chmod(0o700)
        for name in ("up", "go"):
            os.mkfifo(folder / name)

    @property
    def additions(self) -> tuple[str, ...]:
        return (str(self.catalogue),)

    @property
    def starts(self) -> int:
        return (self.folder / "starts").read_text().count("started")

    async def wait_up(self) -> None:
        """The script has begun, so the socket's name is free."""
        await trio.to_thread.run_sync((self.folder / "up").read_text, abandon_on_cancel=True)

    async def say(self, word: str) -> None:
        """What the script is to say of its load."""
        write = (self.folder / "go").write_text
        await trio.to_thread.run_sync(write, f"{word}\n", abandon_on_cancel=True)


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = Place(tmp_path)
    monkeypatch.setattr(local_model.sys, "executable", str(made.script))
    return made


@asynccontextmanager
async def served(place):
    """A backend whose process is the script, and what answers at the socket once it is loaded."""
    answers = ModelServer("http://localhost")
    provider = ProviderSpec(id="local", name="embedded model", wire_api="local")
    ids = iter(range(1000))
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            socket = str(place.folder / "s")
            server = LocalModelServer(place.folder, MODEL, place.additions, nursery, socket)

            async def load(word: str = "ready") -> None:
                await place.wait_up()
                listener = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
                await listener.bind(socket)
                listener.listen()
                listeners = [trio.SocketListener(listener)]
                nursery.start_soon(trio.serve_listeners, answers.serve_connection, listeners)
                await place.say(word)

            async with model_connections(socket) as pool:
                backend = LocalBackend(server, HttpClient(pool), provider, lambda: f"id{next(ids)}")
                yield server, backend, answers, load
            await server.stop()
            nursery.cancel_scope.cancel()


async def ask(backend, model=MODEL):
    request = RenderedRequest(
        agent_id="a", agent_path="/root", ordinal=1, model=model, body=(b"{}",)
    )
    async with aclosing(backend.sample(request)) as events:
        return [event async for event in events]


async def test_a_cancelled_request_ends_no_load_and_the_next_one_shares_it(place):
    async with served(place) as (server, *_):
        with trio.CancelScope() as first:
            loading = server.start(server.plan())
            await place.wait_up()
            first.cancel()
            await loading.wait_ended()
        assert first.cancelled_caught
        assert server.start(server.plan()) is loading
        assert not server.is_loaded
        await place.say("ready")
        await loading.wait_ended()
        assert server.is_loaded
    assert place.starts == 1


async def test_a_loaded_model_is_not_counted_against_the_free_memory_again(place, monkeypatch):
    looks = []

    def look():
        looks.append(1)
        return 10 * GB

    monkeypatch.setattr(local_model, "available_memory_bytes", look)
    async with served(place) as (_, backend, answers, load), trio.open_nursery() as nursery:
        answers.add_chat({"content": "one"})
        answers.add_chat({"content": "two"})
        nursery.start_soon(load)
        first, *_, last = await ask(backend)
        assert isinstance(first, RequestWaiting)
        assert first.reason.startswith("loading mine.gguf: about 0.0 GB of memory")
        assert isinstance(last, ResponseFinished)
        events = await ask(backend)
        assert not [event for event in events if isinstance(event, RequestWaiting)]
    assert (place.starts, len(looks)) == (1, 1)


async def test_no_request_uses_a_connection_that_the_process_may_be_closing(place):
    async with served(place) as (_, backend, answers, load), trio.open_nursery() as nursery:
        nursery.start_soon(load)
        for text in ("one", "two", "three"):
            answers.add_chat({"content": text})
            assert isinstance((await ask(backend))[-1], ResponseFinished)
    assert answers.connections == 3


async def test_a_process_that_dies_in_the_middle_of_an_answer_is_named_and_started_again(place):
    async with served(place) as (server, backend, answers, load), trio.open_nursery() as nursery:
        answers.add('data: {"choices":[{"delta":{"content":"hal"}}]}\n\n', "close")
        answers.add_chat({"content": "whole"})
        nursery.start_soon(load)

        def kill(seen):
            if len(answers.requests) == 1:
                os.kill(server.start(server.plan()).pid, signal.SIGKILL)

        answers.choose = kill
        with pytest.raises(SampleError) as caught:
            await ask(backend)
        failure = caught.value.failure
        assert failure.message.startswith("the process of the model was killed by signal 9")
        assert failure.message.endswith("in the middle of an answer")
        assert (failure.kind, failure.retryable) == ("stream_disconnected", True)
        nursery.start_soon(load)
        assert isinstance((await ask(backend))[-1], ResponseFinished)
    assert place.starts == 2


@pytest.mark.parametrize(("answer_tokens", "kind"), [(100, "overloaded"), (None, "other")])
async def test_two_that_do_not_fit_into_the_cache_together_are_asked_again(
    answer_tokens, kind, place
):
    model = msgspec.structs.replace(MODEL, max_output_tokens=answer_tokens)
    async with served(place) as (server, backend, answers, load), trio.open_nursery() as nursery:
        answers.add_error(500, {"code": 500, "message": "Context size has been exceeded."})
        nursery.start_soon(load)
        with pytest.raises(SampleError) as caught:
            await ask(backend, model)
        assert caught.value.failure.kind == kind
        assert caught.value.failure.retryable is True
        is_careful = server.shares.need_tokens(300, 0) == 301
        assert is_careful is (kind == "overloaded")


async def test_a_model_that_cannot_be_loaded_is_given_up_after_three_starts(place):
    async with served(place) as (_, backend, _, load), trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(load, "failed it is damaged")
            with pytest.raises(SampleError, match=r"could not be loaded: .*it is damaged"):
                await ask(backend)
        with pytest.raises(SampleError, match="it ended several times without an answer"):
            await ask(backend)
    assert place.starts == 3


async def test_a_process_that_cannot_be_started_fails_the_request_and_not_the_gateway(place):
    place.script.chmod(0o600)
    async with served(place) as (_, backend, *_):
        with pytest.raises(SampleError, match=r"could not be started: .*Permission denied"):
            await ask(backend)


async def test_a_load_says_how_far_it_is(tmp_path, autojump_clock):
    own_bytes = local_model.resident_bytes(os.getpid())
    plan = LocalModelPlan(path=tmp_path / "m.gguf", context_tokens=1, memory_bytes=own_bytes * 3)
    loading = ModelLoading(plan)
    assert await loading.wait_progress() == ""
    loading.pid = os.getpid()
    assert re.fullmatch(r"loading m\.gguf: [34]0 %", await loading.wait_progress())
    loading.end()
    began = trio.current_time()
    await loading.wait_progress()
    await loading.wait_ended()
    assert trio.current_time() == began
