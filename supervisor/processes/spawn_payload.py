"""What a new process gets (a sealed spec, keys by pipe, a pipe for its stderr), and its cold start.

A cold start needs no fork-server: it is the fallback when there is none. It always has `-P`: the
working directory is the user's project, and a trio.py there must not be imported. posix_spawn needs
neither a thread nor an object that must be waited for.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import msgspec

from swarm.mailbox.protocol.spec import AnySpec, encode_spec

from .process_types import SpawnError

_KEYS_LIMIT_BYTES = 64 * 1024  # what a pipe holds without a reader
_SEALS = (
    fcntl.F_ADD_SEALS,
    (fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL),
)
_FIRST_FREE_FD = 64  # moves the descriptors out of the way of their final numbers
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
_encode_keys = msgspec.msgpack.Encoder().encode


class SpawnPayload(NamedTuple):
    """Descriptors that are open as long as the `with` block; the child has its own copies."""

    spec_fd: int
    stderr_writer: int
    stderr_reader: int  # stays open: the caller's, unless the block raises
    key_fds: tuple[int, ...]


@contextmanager
def open_spawn_payload(spec: AnySpec, keys: Mapping[str, str] | None) -> Iterator[SpawnPayload]:
    """Open the payload; the end of the block closes all but `stderr_reader`. Raises SpawnError."""
    packed = b"" if keys is None else _encode_keys(dict(keys))
    if len(packed) > _KEYS_LIMIT_BYTES:
        raise SpawnError(f"the keys are {len(packed)} bytes long; at most 64 KiB fit")
    with ExitStack() as stack, ExitStack() as on_error:
        try:
            spec_fd = _open_sealed(stack, encode_spec(spec))
            stderr_reader, stderr_writer = os.pipe2(os.O_CLOEXEC)
            on_error.callback(os.close, stderr_reader)
            stack.callback(os.close, stderr_writer)
            key_fds = () if keys is None else (_open_filled_pipe(stack, packed),)
        except OSError as error:
            raise SpawnError(f"cannot prepare a new process: {error.strerror}") from error
        yield SpawnPayload(spec_fd, stderr_writer, stderr_reader, key_fds)
        on_error.pop_all()


def _open_sealed(stack: ExitStack, content: bytes) -> int:
    fd = os.memfd_create("spec", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, fd)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]
    fcntl.fcntl(fd, *_SEALS)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _open_filled_pipe(stack: ExitStack, content: bytes) -> int:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    stack.callback(os.close, reader)
    try:
        os.write(writer, content)
    finally:
        os.close(writer)
    return reader


def spawn_cold(program: Sequence[str], fds: Sequence[int], *, stderr_fd: int) -> int:
    """Start `python -P PROGRAM 3 4 …` in a process group of its own; return its pid.

    Args:
        program: Arguments of the interpreter, for example ("-m", "swarm.worker.process.cold_entry",
            title).
        fds: Become descriptors 3, 4 … in the child, numbered at the end of its arguments. Not
            closed here.
        stderr_fd: Where its stdout and stderr go. Not closed here.

    Raises SpawnError if the system refuses. The caller reaps the child.
    """
    moved: list[int] = []
    try:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        moved.append(nothing)
        moved += (
            fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in (stderr_fd, *fds)
        )
        actions = [(os.POSIX_SPAWN_DUP2, nothing, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, moved[1], number) for number in (1, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, fd, 3 + place) for place, fd in enumerate(moved[2:])]
        numbers = [str(3 + place) for place in range(len(fds))]
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", *program, *numbers],
            os.environ,
            file_actions=actions,
            setpgroup=0,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    except OSError as error:
        raise SpawnError(f"cannot start {sys.executable}: {error.strerror}") from error
    finally:
        for fd in moved:
            os.close(fd)
