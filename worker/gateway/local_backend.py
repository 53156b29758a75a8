"""The embedded model: a model file that llama.cpp serves in a process of its own, for all agents.

Imported only when the provider `local` is chosen. The process speaks the Chat Completions wire at a
Unix socket in the run's folder of sockets, so requests, tool calls and answers take the same way as
those of any server. The process starts with the first request, ends when nobody asked for a while,
and is started again when it is needed.
"""

import importlib.util
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

import httpcore
import msgspec
import trio

from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.base.writable_places import NO_PLACES, WritablePlaces
from swarm.mailbox.protocol.gateway import Fetching
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import ProviderSpec

from .backend import (
    Backend,
    NewId,
    RenderedRequest,
    RequestWaiting,
    ResponseEvents,
    SampleError,
)
from .fetch import FetchFailed, fetch_weights
from .http.http_client import HttpClient
from .http_source import HttpSource
from .local_model import LocalModelServer, available_memory_bytes
from .provider_keys import ProviderKeys
from .rate_limiter import RateLimiter
from .retry_policy import RetryingBackend
from .weights import (
    Weights,
    find_weights,
    known_weights,
    load_weights,
    verify_weights,
    weights_path,
)

_IPC, _SOCKET = "ipc://", ".llm.sock"
_ANSWER_TOKENS = 2048  # of an answer whose longest length is not known
_OVERFLOW = "Context size has been exceeded"  # the library's words for a full cache
_CAPABLE_BYTES = 8 << 30  # of free memory, from which a larger model than the small one is taken

ReportProgress = Callable[[Fetching], None]


def find_capable_model(models_dir: Path, additions: Sequence[str]) -> tuple[str, int] | None:
    """The model to take instead of the small one, and the bytes of free memory; or None."""
    free_bytes = available_memory_bytes()
    name = choose_capable_model(models_dir, additions, free_bytes=free_bytes)
    return (name, free_bytes) if name is not None else None


def choose_capable_model(
    models_dir: Path, additions: Sequence[str], *, free_bytes: int
) -> str | None:
    """The largest model that can call tools, whose file is in the folder, and that fits well.

    A machine with less than 8 GiB of free memory keeps to the small model, and so does one whose
    memory the file would fill by more than half. The file's sha256 is checked later, by
    `prepare_local`.
    """
    if free_bytes < _CAPABLE_BYTES:
        return None
    found = [
        (entry.size_bytes, name)
        for name, entry in load_weights(additions).items()
        if entry.can_call_tools
        and 2 * entry.size_bytes <= free_bytes
        and _size_of(weights_path(models_dir, entry)) == entry.size_bytes
    ]
    return max(found)[1] if found else None


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


async def prepare_local(
    models_dir: Path,
    slug: str,
    additions: Sequence[str],
    report: ReportProgress,
    places: WritablePlaces = NO_PLACES,
) -> str | None:
    """Make sure that the model can be loaded; check a file that is new, fetch one that is missing.

    Args:
        models_dir: The folder of the model files.
        slug: A name of the weights catalogue.
        additions: A person's own models.toml files.
        report: Receives the progress, at most once per percent.
        places: Where agents may write.

    Returns:
        None if it can be loaded, else one sentence: why not, and what to do.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        return f"the package xllamacpp is not installed; to install it: {line_for_extra('local')}"
    if find_weights(models_dir, slug, additions) is not None:
        return None
    entry = known_weights(slug, additions)
    path = weights_path(models_dir, entry)
    if path.exists():
        return await _check_file(path, entry, slug, report)
    progress = _percents(slug, report)
    try:
        fetch = partial(fetch_weights, slug, entry, models_dir, progress, places)
        await trio.to_thread.run_sync(fetch)
    except FetchFailed as error:
        return str(error)
    return None


async def _check_file(path: Path, entry: Weights, slug: str, report: ReportProgress) -> str | None:
    """A file that somebody put there: check it once; later starts trust the stamp."""
    report(Fetching(what=f"{slug} (checking the file {path.name})", have_bytes=0))
    if await trio.to_thread.run_sync(verify_weights, path, entry):
        return None
    size = (await trio.Path(path).stat()).st_size
    found = f"{size:,} bytes" if size != entry.size_bytes else "another sha256"
    return (
        f"{path} is not the file that the catalogue names for {slug}: it has {found}, expected are "
        f"{entry.size_bytes:,} bytes and sha256 {entry.sha256[:12]}…. Remove it, or use it under "
        f"a name of its own: swarm models add {path} --name NAME"
    )


def _percents(slug: str, report: ReportProgress) -> Callable[[int, int], None]:
    """A progress callback for a thread; it reports each percent once."""
    shown = -1

    def progress(have: int, total: int) -> None:
        nonlocal shown
        trio.from_thread.check_cancelled()
        percent = have * 100 // total if total else 0
        if percent != shown:
            shown = percent
            step = Fetching(what=slug, have_bytes=have, total_bytes=total)
            trio.from_thread.run_sync(report, step)

    return progress


@asynccontextmanager
async def open_local(
    models_dir: Path,
    model: ModelInfo,
    provider: ProviderSpec,
    additions: Sequence[str],
    *,
    bind: str,
    new_id: NewId,
) -> AsyncIterator[Backend]:
    """The backend of that model; it loads the weights at its first request.

    Its socket lies beside the gateway's own and is removed with the run's folder of sockets;
    without `bind` it gets a temporary folder that is removed with the block.
    """
    async with trio.open_nursery() as nursery:
        with tempfile.TemporaryDirectory(prefix="swarm-", ignore_cleanup_errors=True) as folder:
            base = bind.removeprefix(_IPC) if bind.startswith(_IPC) else f"{folder}/model"
            server = LocalModelServer(models_dir, model, additions, nursery, f"{base}{_SOCKET}")
            async with model_connections(server.socket) as pool:
                yield LocalBackend(server, HttpClient(pool), provider, new_id)
            await server.stop()
            nursery.cancel_scope.cancel()


def model_connections(socket: str) -> httpcore.AsyncConnectionPool:
    """Each request has a connection of its own: the library closes one after a few requests without
    saying so before, and the next request on it would be lost.
    """
    return httpcore.AsyncConnectionPool(uds=socket, max_keepalive_connections=0)


class LocalBackend:
    """Answers from the model's process. Requests wait until its cache has room for them."""

    def __init__(
        self, server: LocalModelServer, client: HttpClient, provider: ProviderSpec, new_id: NewId
    ) -> None:
        self._server = server
        chat = msgspec.structs.replace(
            provider,
            wire_api="chat",
            base_url="http://localhost/v1",
            http_headers={"authorization": f"Bearer {server.key}"},
        )
        keys = ProviderKeys({})
        source = HttpSource(client, chat, keys, new_id)
        limiter = RateLimiter(announce=_announce_nothing, noise=_no_noise)
        self._requests = RetryingBackend(source, limiter, max_retries=0)

    def _need_tokens(self, request: RenderedRequest) -> int:
        size = sum(len(part) for part in request.body)
        answer = request.model.max_output_tokens or _ANSWER_TOKENS
        return self._server.shares.need_tokens(size, answer)

    async def sample(self, request: RenderedRequest) -> ResponseEvents:
        """Answer once. Closing the generator ends the work at the next token."""
        server = self._server
        if not server.is_loaded:
            loading = server.start(server.plan())
            notice = loading.plan.describe()
            while not loading.has_ended:
                yield RequestWaiting(reason=notice, delay_s=0.0)
                notice = await loading.wait_progress() or notice
            await loading.wait_ended()
        answered = False
        need_tokens = self._need_tokens(request)
        async with server.shares.share(need_tokens):
            if not server.is_loaded:  # it has ended while this request waited
                await server.start(server.plan()).wait_ended()
            try:
                async with aclosing(self._requests.sample(request)) as events:
                    async for event in events:
                        answered = True
                        yield event
            except SampleError as error:
                if _OVERFLOW in error.failure.message and need_tokens < server.shares.total_tokens:
                    server.shares.note_overflow()
                    raise _did_not_fit(error) from error
                is_cut = error.failure.kind in {"stream_disconnected", "connection_failed"}
                why = await server.wait_death_reason() if is_cut else server.death_reason()
                raise _with_death(error, why) from error
            finally:
                server.note_used(answered=answered)


def _did_not_fit(error: SampleError) -> SampleError:
    """Two conversations together took more than was estimated; each of them fits alone."""
    text = "the model's cache has no room for two conversations of this length; each is asked again"
    failure = msgspec.structs.replace(
        error.failure, kind="overloaded", message=text, retryable=True
    )
    return SampleError(failure)


def _with_death(error: SampleError, why: str | None) -> SampleError:
    """A broken answer of a process that is gone: say so; another attempt starts it again."""
    if why is None:
        return error
    text = f"{why}, in the middle of an answer"
    return SampleError(
        msgspec.structs.replace(
            error.failure, kind="stream_disconnected", message=text, retryable=True
        )
    )


def _announce_nothing(event: object) -> None:
    """The process is ours: it has no rate limits."""


def _no_noise() -> float:
    return 0.0
