"""The process of the embedded model: what it needs, how it starts, why it ended.

It is started with the first request, ended when nobody asked for a while, and started again when
it is needed; several ends in a row without an answer are final.
"""

import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.base.process_tree import resident_bytes
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.base import Value

from .backend import Failure, SampleError
from .cache_shares import CacheShares
from .gguf_header import GgufHeader, NotAModelFile, read_gguf_header
from .model_server import FAILED, READY, ModelServerOrder
from .weights import find_weights, known_weights

_MOST_REQUESTS = 2  # that are answered side by side
_LOAD_LIMIT_S = 600.0  # a large file on a slow disk
_STDERR_BYTES = 16_384  # of the library's log; its last lines say why it failed
_SPARE_BYTES = 256 << 20  # that must stay free beside the model
_LOG_REASON = "error loading model:"
_DEATH_S = 1.0  # a process that ends closes its connections first
_GIVE_UP_AFTER = 3  # ends of the process in a row without one answer
_PROGRESS_S = 1.0  # between two looks at a model that is being loaded
_MEMORY_FILE = Path("/proc/meminfo")


class LocalModelPlan(Value):
    """What is loaded, and how much memory that takes."""

    path: Path
    context_tokens: int  # of one conversation, and of all that are answered side by side
    memory_bytes: int  # an estimate: the file, the cache, and buffers

    def describe(self) -> str:
        """`loading model.gguf: about 1.9 GB of memory, 16384 tokens`."""
        size = self.memory_bytes / 1e9
        return (
            f"loading {self.path.name}: about {size:.1f} GB of memory, {self.context_tokens} tokens"
        )


class ModelLoading:
    """One start of the process. Requests share it, and a request that is cancelled ends none."""

    def __init__(self, plan: LocalModelPlan) -> None:
        self.plan = plan
        self.pid = 0
        self.failure: Failure | None = None
        self._ended = trio.Event()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def end(self) -> None:
        """The model is loaded, or `failure` says why it is not."""
        self._ended.set()

    async def wait_ended(self) -> None:
        """Raises SampleError if the model could not be loaded."""
        await self._ended.wait()
        if self.failure is not None:
            raise SampleError(self.failure)

    async def wait_progress(self) -> str:
        """What is loaded by now, a while later or at the end; "" before the first tenth."""
        with trio.move_on_after(_PROGRESS_S):
            await self._ended.wait()
        tenths = min(9, 10 * resident_bytes(self.pid) // max(1, self.plan.memory_bytes))
        return f"loading {self.plan.path.name}: {tenths}0 %" if tenths else ""


def plan_local_model(
    path: Path, header: GgufHeader, *, size_bytes: int, window: int, available_bytes: int
) -> LocalModelPlan:
    """Plan a cache for one whole conversation; shorter ones share it (`CacheShares`).

    It is never smaller than what the agents were told, because they would overrun it.

    Raises:
        SampleError: it does not fit into the memory. The text names both figures.
    """
    need_bytes = size_bytes + header.cache_bytes(window) + size_bytes // 4
    if need_bytes + _SPARE_BYTES <= available_bytes:
        return LocalModelPlan(path=path, context_tokens=window, memory_bytes=need_bytes)
    text = (
        f"{path.name} needs about {need_bytes / 1e9:.1f} GB of memory with {window} tokens, and "
        f"{available_bytes / 1e9:.1f} GB are free: close other programs, choose a smaller model, "
        "or set a smaller context_window for it in models.toml"
    )
    raise SampleError(Failure(kind="no_provider", message=text))


def available_memory_bytes() -> int:
    """Memory that can be used without swapping, as the kernel estimates it."""
    for line in _MEMORY_FILE.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 1 << 62  # this kernel does not say: the library decides


class LocalModelServer:
    """Starts, watches and ends the process of the model."""

    def __init__(
        self,
        models_dir: Path,
        model: ModelInfo,
        additions: Sequence[str],
        nursery: trio.Nursery,
        socket: str,
    ) -> None:
        self._models_dir, self._model, self._additions = models_dir, model, additions
        self._nursery, self.socket = nursery, socket
        self.key = secrets.token_hex(16)
        self._entry = known_weights(model.slug, additions)
        self._process: trio.Process | None = None
        self._loading: ModelLoading | None = None
        self._plan: LocalModelPlan | None = None
        self._log = b""
        self._is_stopped = False  # from here: its exit code says nothing
        self._ends = 0  # of the process, since it last answered
        self.shares = CacheShares(model.context_window, _MOST_REQUESTS)
        self._last_used = trio.current_time()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_loaded(self) -> bool:
        return self.is_running and self._loading is not None and self._loading.has_ended

    def plan(self) -> LocalModelPlan:
        """What will be loaded. Raises SampleError: no file, a damaged one, or too little memory."""
        path = find_weights(self._models_dir, self._model.slug, self._additions)
        if path is None:
            raise _unusable(
                f"the model file of {self._model.slug} is missing or has changed; "
                f"`swarm models pull {self._model.slug}` fetches it"
            )
        try:
            header = read_gguf_header(path)
        except (NotAModelFile, OSError) as error:
            raise _unusable(str(error)) from error
        return plan_local_model(
            path,
            header,
            size_bytes=path.stat().st_size,
            window=self._model.context_window,
            available_bytes=available_memory_bytes(),
        )

    def start(self, plan: LocalModelPlan) -> ModelLoading:
        """Start the process; the start that is under way or has succeeded if there is one.

        Raises SampleError: it has ended too often without an answer.
        """
        self._last_used = trio.current_time()
        if self._loading is not None and (self.is_running or not self._loading.has_ended):
            return self._loading
        if self._ends >= _GIVE_UP_AFTER:
            died = self.death_reason()
            why = "it ended several times without an answer" + (f"; {died}" if died else "")
            raise _unusable(self._failure_text(why))
        self._ends += 1
        self._loading = ModelLoading(plan)
        self._nursery.start_soon(self._load, self._loading)
        return self._loading

    async def _load(self, loading: ModelLoading) -> None:
        try:
            await self._launch(loading)
        except SampleError as error:
            loading.failure = error.failure
        except OSError as error:  # no memory or no process left, for example
            text = f"the process of the model could not be started: {error}"
            loading.failure = Failure(kind="no_provider", message=text)
        finally:
            loading.end()

    async def _launch(self, loading: ModelLoading) -> None:
        plan = loading.plan
        await trio.Path(self.socket).unlink(missing_ok=True)
        order = ModelServerOrder(
            model=str(plan.path),
            socket=self.socket,
            key=self.key,
            slots=_MOST_REQUESTS,
            context_tokens=plan.context_tokens,
        )
        self._log, self._plan, self._is_stopped = b"", plan, False
        process = await trio.lowlevel.open_process(
            [sys.executable, "-P", "-m", "swarm.worker.gateway.model_server"],
            stdin=-1, stdout=-1, stderr=-1,
        )  # fmt: skip
        assert process.stdin is not None
        self._process, loading.pid = process, process.pid
        self._nursery.start_soon(self._read_log, process)
        said = ""
        with trio.move_on_after(_LOAD_LIMIT_S), suppress(trio.BrokenResourceError):
            await process.stdin.send_all(msgspec.json.encode(order) + b"\n")
            said = await _first_line(process)
        if said != READY:
            reported = said.removeprefix(FAILED).strip() or await self.wait_death_reason()
            await self.stop()
            late = f"not loaded within {_LOAD_LIMIT_S:g} s"
            raise _unusable(self._failure_text(reported or late))
        self._nursery.start_soon(self._end_when_idle, process)

    async def _read_log(self, process: trio.Process) -> None:
        assert process.stderr is not None
        async for piece in process.stderr:
            self._log = (self._log + piece)[-_STDERR_BYTES:]

    async def _end_when_idle(self, process: trio.Process) -> None:
        """End the process `keep_alive_s` after the last request, so that its memory is free."""
        keep_s = self._entry.keep_alive_s
        while keep_s > 0 and process.poll() is None:
            idle_s = trio.current_time() - self._last_used
            if self.shares.holders == 0 and idle_s >= keep_s:
                self._ends, self._loading = 0, None
                await self.stop()
                return
            await trio.sleep(max(1.0, keep_s - idle_s))

    def note_used(self, *, answered: bool) -> None:
        """A request has ended; `answered`: the model wrote something."""
        self._last_used = trio.current_time()
        if answered:
            self._ends = 0

    async def stop(self) -> None:
        """End the process at once; nothing that it holds is worth a wait."""
        process = self._process
        if process is None:
            return
        self._is_stopped = self._is_stopped or process.poll() is None
        process.kill()
        with trio.CancelScope(shield=True), trio.move_on_after(10.0):
            await process.wait()

    async def wait_death_reason(self) -> str | None:
        """As `death_reason`, for a process that has just closed its connection."""
        if self._process is not None:
            with trio.move_on_after(_DEATH_S):
                await self._process.wait()
        return self.death_reason()

    def death_reason(self) -> str | None:
        """Why the process is gone, in words; None while it runs, or if it was stopped from here."""
        if self._process is None or self.is_running or self._is_stopped:
            return None
        code = self._process.returncode or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        hint = " (the kernel does so when memory runs out)" if code == -9 else ""
        return f"the process of the model {how}{hint}"

    def _failure_text(self, reported: str) -> str:
        reason = load_error(self._log.decode("utf-8", "replace"))
        name = self._plan.path if self._plan is not None else self._model.slug
        return f"the model file {name} could not be loaded: {reason or reported}. {_advice(reason)}"


def _advice(reason: str) -> str:
    if reason and "allocate" not in reason:
        return "Fetch the file again, or choose another model with -m"
    return "Close other programs, or choose a smaller model with -m"


def load_error(log: str) -> str:
    """The library's reason in its log, for example a file that ends too early; "" if none."""
    found = [line.partition(_LOG_REASON)[2] for line in log.splitlines() if _LOG_REASON in line]
    return found[-1].strip()[:300] if found else ""


def _unusable(message: str) -> SampleError:
    return SampleError(Failure(kind="no_provider", message=message))


async def _first_line(process: trio.Process) -> str:
    assert process.stdout is not None
    data = b""
    while b"\n" not in data and (piece := await process.stdout.receive_some(4096)):
        data += piece
    return data.partition(b"\n")[0].decode("utf-8", "replace").strip()
