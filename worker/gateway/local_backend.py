"""The embedded model: llama.cpp through xllamacpp, loaded once, shared by all agents.

Imported only when the provider `local` is chosen. The library uses its own threads. A request is
one blocking call in a Trio thread; its callback hands each chunk over, and the callback's return
value ends the decoding when nobody reads any more.
"""

import importlib
import importlib.util
import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import msgspec
import trio

from swarm.mailbox.protocol.gateway import Fetching
from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCallOutput,
    FunctionCallOutput,
    Message,
    OutputText,
    TokenUsage,
    text_of,
)
from swarm.mailbox.protocol.sampling import ModelInfo

from .backend import (
    Failure,
    RenderedRequest,
    ResponseEvents,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseTextDelta,
    SampleError,
)
from .fetch import FetchFailed, fetch_weights
from .weights import find_weights, known_weights

_IPC, _SOCKET = "ipc://", ".sock"  # the library recognises a socket by the suffix
_SLOTS = 2  # requests that are decoded in parallel
_MOST_ANSWER_TOKENS = 384
_WORDS_PER_TOKEN_ROOM = 3  # bytes of prompt per token of context, a cautious value

ReportProgress = Callable[[Fetching], None]
Body = dict[str, object]  # a chat request; the library encodes it


# --- the part of the library's interface that we use (it has no types) ---------------------------


class _Weights(Protocol):
    path: str


class _Threads(Protocol):
    n_threads: int


class _Params(Protocol):
    model: _Weights
    cpuparams: _Threads
    n_parallel: int
    n_ctx: int
    api_keys: list[str]
    hostnames: list[str]
    warmup: bool


class _Server(Protocol):
    def handle_chat_completions(self, body: Body, on_chunk: Callable[[object], bool], /) -> object:
        """Blocks until the answer's end, or until the callback returns True."""


class _Library(Protocol):
    def CommonParams(self) -> _Params: ...
    def Server(self, params: _Params, /) -> _Server: ...


# --- one chunk of a chat answer: the fields that we read -----------------------------------------


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _CountDetails(msgspec.Struct):
    cached_tokens: int = 0


class _Counts(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: _CountDetails | None = None


class _Chunk(msgspec.Struct):
    choices: tuple[_Choice, ...] = ()
    usage: _Counts | None = None
    error: object = None


async def prepare_local(models_dir: Path, slug: str, tell: ReportProgress) -> str | None:
    """Make sure that the model can be loaded; fetch its file if it is missing.

    Args:
        models_dir: The folder of the model files.
        slug: A name of the weights catalogue.
        tell: Called with the progress, at most once per percent.

    Returns:
        None if it can be loaded, else one sentence: why not, and what to do.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        return "the package xllamacpp is not installed; install `swarm-agents[local]`"
    if find_weights(models_dir, slug) is not None:
        return None
    entry = known_weights(slug)
    shown = -1

    def progress(have: int, total: int) -> None:
        nonlocal shown
        percent = have * 100 // total if total else 0
        if percent != shown:
            shown = percent
            step = Fetching(what=slug, have_bytes=have, total_bytes=total)
            trio.from_thread.run_sync(tell, step)

    try:
        await trio.to_thread.run_sync(partial(fetch_weights, slug, entry, models_dir, progress))
    except FetchFailed as error:
        return str(error)
    return None


@contextmanager
def open_local(models_dir: Path, model: ModelInfo, *, bind: str) -> Iterator["LocalBackend"]:
    """The backend of that model; it loads the weights at its first request.

    The library requires a socket, which nobody uses. It lies in the run's folder of sockets and is
    removed with that folder; without `bind` it gets a temporary folder that is removed with the
    block.
    """
    if bind.startswith(_IPC):
        yield LocalBackend(models_dir, model, socket=f"{bind.removeprefix(_IPC)}{_SOCKET}")
        return
    with tempfile.TemporaryDirectory(prefix="swarm-", ignore_cleanup_errors=True) as folder:
        yield LocalBackend(models_dir, model, socket=f"{folder}/llm{_SOCKET}")


class LocalBackend:
    """One loaded model. Requests beyond the slots wait for a slot."""

    def __init__(self, models_dir: Path, model: ModelInfo, *, socket: str) -> None:
        self._models_dir, self._model, self._socket = models_dir, model, socket
        self._server: _Server | None = None
        self._loading = trio.Lock()
        self._turns = trio.CapacityLimiter(_SLOTS)

    async def sample(self, request: RenderedRequest) -> ResponseEvents:
        """Answer once. Closing the generator ends the decoding at the next token."""
        server = await self._loaded()
        chunks_in, chunks_out = trio.open_memory_channel[object](1024)
        stopped = threading.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                self._decode, server, _body(request, self._model), chunks_in, stopped
            )
            try:
                async for event in _events(request, chunks_out):
                    yield event
            finally:
                stopped.set()
                chunks_out.close()

    async def _loaded(self) -> _Server:
        async with self._loading:
            if self._server is None:
                path = find_weights(self._models_dir, self._model.slug)
                if path is None:
                    raise SampleError(
                        Failure(
                            kind="no_provider",
                            message=f"the model file of {self._model.slug} is missing; "
                            f"`swarm models pull {self._model.slug}` fetches it",
                        )
                    )
                self._server = await trio.to_thread.run_sync(_load, path, self._model, self._socket)
            return self._server

    async def _decode(
        self,
        server: _Server,
        body: Body,
        chunks: trio.MemorySendChannel[object],
        stopped: threading.Event,
    ) -> None:
        def on_chunk(chunk: object) -> bool:
            if not stopped.is_set():
                try:
                    trio.from_thread.run_sync(chunks.send_nowait, chunk)
                except (trio.BrokenResourceError, trio.Cancelled, trio.WouldBlock):
                    stopped.set()
            return stopped.is_set()

        with chunks:
            await trio.to_thread.run_sync(
                server.handle_chat_completions, body, on_chunk, limiter=self._turns
            )


def _load(path: Path, model: ModelInfo, socket: str) -> _Server:
    """Load the weights: no log, a private socket, no web page, no network."""
    # 34 MB, so imported only here
    library = cast("_Library", importlib.import_module("xllamacpp"))
    params = library.CommonParams()
    params.model.path = str(path)
    params.n_parallel = _SLOTS
    params.n_ctx = model.context_window * _SLOTS
    params.cpuparams.n_threads = max(1, os.cpu_count() or 1)
    params.api_keys = [secrets.token_hex(16)]  # nobody else can use the required socket
    params.hostnames = [socket]
    params.warmup = False
    with _quiet():
        return library.Server(params)


class _quiet:
    """Redirects descriptor 2 to /dev/null, because the library logs there while it loads."""

    def __enter__(self) -> None:
        self._kept = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)

    def __exit__(self, *_: object) -> None:
        os.dup2(self._kept, 2)
        os.close(self._kept)


def _body(request: RenderedRequest, model: ModelInfo) -> Body:
    """A chat request that fits the context: the newest items stay; long ones lose their middle."""
    room = (model.context_window - _MOST_ANSWER_TOKENS) * _WORDS_PER_TOKEN_ROOM
    system = [{"role": "system", "content": request.instructions}] if request.instructions else []
    room -= len(request.instructions.encode())
    messages: list[dict[str, str]] = []
    for item in reversed(request.items):
        message = _message(item)
        if message is None or room <= 0:
            continue
        message["content"] = _cut(message["content"], room)
        room -= len(message["content"].encode())
        messages.append(message)
    return {
        "messages": system + messages[::-1],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": _MOST_ANSWER_TOKENS,
        "temperature": 0.1,
        "repeat_penalty": 1.1,
        "seed": 1,  # the same question gets the same answer
    }


def _message(item: AnyItem) -> dict[str, str] | None:
    match item:
        case Message(role="developer"):
            return {"role": "system", "content": text_of(item.content)}
        case Message():
            return {"role": item.role, "content": text_of(item.content)}
        case FunctionCallOutput() | CustomToolCallOutput():
            return {"role": "user", "content": text_of(item.output)}
        case _:
            return None


def _cut(text: str, room_bytes: int) -> str:
    data = text.encode()
    if len(data) <= room_bytes:
        return text
    half = max(room_bytes // 2 - 8, 0)
    head = data[:half].decode("utf-8", "ignore")
    tail = data[len(data) - half :].decode("utf-8", "ignore")
    return f"{head}\n[…]\n{tail}"


async def _events(
    request: RenderedRequest, chunks: trio.MemoryReceiveChannel[object]
) -> ResponseEvents:
    item_id = f"msg_{request.agent_id[-8:]}_{request.ordinal}"
    started = trio.current_time()
    first: float | None = None
    pieces: list[str] = []
    usage: TokenUsage | None = None
    reason = ""
    async for raw in chunks:
        chunk = _read(raw)
        usage = _usage(chunk.usage) or usage
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            if choice.delta is None or not (text := choice.delta.content):
                continue
            if first is None:
                first = trio.current_time() - started
                yield ResponseItemStarted(item_id=item_id, kind="message")
            pieces.append(text)
            yield ResponseTextDelta(item_id=item_id, text=text)
    text = "".join(pieces).strip()
    message = Message(role="assistant", content=(OutputText(text=text),), id=item_id)
    yield ResponseItemDone(item=message)
    yield ResponseFinished(
        response_id=item_id, usage=usage, truncated=reason == "length", first_byte_s=first
    )


def _read(raw: object) -> _Chunk:
    """Decode one chunk; an error in it becomes a SampleError."""
    try:
        chunk = msgspec.convert(raw, _Chunk)
    except msgspec.ValidationError as error:
        text = f"the embedded model's answer cannot be read: {error}"
        raise SampleError(Failure(kind="bad_response", message=text)) from error
    if chunk.error is not None:
        raise SampleError(Failure(kind="bad_request", message=str(chunk.error)[:500]))
    return chunk


def _usage(counts: _Counts | None) -> TokenUsage | None:
    if counts is None:
        return None
    details = counts.prompt_tokens_details
    return TokenUsage(
        input_tokens=counts.prompt_tokens,
        cached_input_tokens=details.cached_tokens if details else 0,
        output_tokens=counts.completion_tokens,
        total_tokens=counts.total_tokens,
    )
