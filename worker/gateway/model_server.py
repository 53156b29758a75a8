"""The process of the embedded model: llama.cpp loads one model file and answers at a Unix socket.

The gateway starts it with `python -P -m swarm.worker.gateway.model_server`, writes one
`ModelServerOrder` to its standard input, and reads one line from its standard output: "ready", or
"failed" and why. The process ends when its standard input closes, also after a kill -9 of the
gateway. It has no keys, no network, and reads no file but the model once it has begun to load.

A process of its own: loading blocks for seconds, and a damaged file or too little memory ends the
library's process. Neither may stop the gateway.
"""

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Protocol, cast

import msgspec

from swarm.mailbox.protocol.values.base import Value

from ..sandbox import landlock

READY, FAILED = "ready", "failed"
_READABLE = ("/usr", "/lib", "/lib64", "/proc", "/sys", "/dev/null", "/etc/localtime")
_PING_S = 15  # an event keeps the stream alive while a long prompt is evaluated


class ModelServerOrder(Value):
    """What the process is to load and where it is to listen."""

    model: str  # path of the model file
    socket: str  # path of the Unix socket; its folder exists and ends with the run
    key: str  # every request must carry it
    slots: int  # requests that are answered side by side
    context_tokens: int  # of one conversation, and of all that are answered side by side


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
    kv_unified: bool
    api_keys: list[str]
    hostnames: list[str]
    warmup: bool
    ui: bool
    offline: bool
    sse_ping_interval: int
    cache_ram_mib: int


class _Library(Protocol):
    def CommonParams(self) -> _Params: ...
    def Server(self, params: _Params, /) -> object: ...


def main() -> int:
    """Serve until standard input closes. Exit code 1: the model could not be loaded."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ModelServerOrder)
    try:
        server = _load(order)
    except Exception as error:  # the library raises what it likes; the gateway needs the reason
        _say(FAILED, f"{type(error).__name__}: {error}")
        return 1
    _say(READY, "")
    while sys.stdin.buffer.read(4096):
        pass
    del server
    os._exit(0)  # at once: its threads may be in the middle of an answer


def _load(order: ModelServerOrder) -> object:
    """The loaded server; it listens and runs in threads of its own."""
    # Threads that wait must not spin: commands of agents need the processors meanwhile, and on a
    # busy machine a spinning thread keeps the one that it waits for from running (half the speed).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when the library is loaded
    library = cast("_Library", importlib.import_module("xllamacpp"))
    params = library.CommonParams()
    params.model.path = order.model
    params.n_parallel = order.slots
    params.n_ctx, params.kv_unified = order.context_tokens, True
    params.cpuparams.n_threads = max(1, len(os.sched_getaffinity(0)))
    params.api_keys, params.hostnames = [order.key], [order.socket]
    params.warmup, params.ui, params.offline = False, False, True
    params.sse_ping_interval = _PING_S
    params.cache_ram_mib = 0  # no copies of conversations beside the cache
    _confine(order)
    return library.Server(params)


def _confine(order: ModelServerOrder) -> None:
    """No new rights, no network, no file but these. Where Landlock is missing, nothing is lost."""
    folder = str(Path(order.socket).parent.resolve())
    grants = [landlock.LandlockGrant(path=path, access=landlock.READ) for path in _READABLE]
    model = str(Path(order.model).resolve())
    grants.append(landlock.LandlockGrant(path=model, access=landlock.READ_FILE))
    grants.append(landlock.LandlockGrant(path=folder, access=landlock.WRITE))
    with suppress(OSError):
        landlock.forbid_new_privileges()
        landlock.apply_landlock(landlock.LandlockRules(grants=tuple(grants)))


def _say(word: str, reason: str) -> None:
    sys.stdout.write(" ".join(f"{word} {reason}".split())[:2000] + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
