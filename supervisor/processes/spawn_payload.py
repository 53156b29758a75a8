"""What a new process gets: a sealed spec, keys by pipe, and a pipe for its stderr."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from swarm.mailbox.protocol.spec import AnySpec, encode_spec

from .process_types import SpawnError

_KEYS_LIMIT_BYTES = 64 * 1024  # what a pipe holds without a reader
_SEALS = (
    fcntl.F_ADD_SEALS,
    (fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL),
)
_encode_keys = msgspec.msgpack.Encoder().encode


class SpawnPayload:
    """Descriptors that are open as long as the `with` block; the child has its own copies."""

    def __init__(self) -> None:
        self._open: list[int] = []
        self.spec_fd = self.stderr_writer = self._stderr_reader = -1
        self.key_fds: tuple[int, ...] = ()

    @property
    def fork_server_fds(self) -> tuple[int, ...]:
        """In the order that the fork-server expects."""
        return (self.spec_fd, self.stderr_writer, *self.key_fds)

    def take_stderr(self) -> int:
        """The reading end, which the caller closes from now on."""
        self._open.remove(self._stderr_reader)
        return self._stderr_reader

    def fill(self, spec: AnySpec, keys: Mapping[str, str] | None) -> None:
        self.spec_fd = os.memfd_create("spec", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._open.append(self.spec_fd)
        rest = memoryview(encode_spec(spec))
        while rest:
            rest = rest[os.write(self.spec_fd, rest) :]
        fcntl.fcntl(self.spec_fd, *_SEALS)
        os.lseek(self.spec_fd, 0, os.SEEK_SET)
        self._stderr_reader, self.stderr_writer = self._pipe()
        if keys is None:
            return
        packed = _encode_keys(dict(keys))
        if len(packed) > _KEYS_LIMIT_BYTES:
            raise SpawnError(f"the keys are {len(packed)} bytes long; at most 64 KiB fit")
        reader, writer = self._pipe()
        os.write(writer, packed)
        self._open.remove(writer)
        os.close(writer)
        self.key_fds = (reader,)

    def _pipe(self) -> tuple[int, int]:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._open += (reader, writer)
        return reader, writer

    def close(self) -> None:
        for fd in self._open:
            os.close(fd)
        self._open.clear()


@contextmanager
def open_spawn_payload(spec: AnySpec, keys: Mapping[str, str] | None) -> Iterator[SpawnPayload]:
    """Open the payload; the end of the block closes all but what was taken. Raises SpawnError."""
    parcel = SpawnPayload()
    try:
        try:
            parcel.fill(spec, keys)
        except OSError as error:
            raise SpawnError(f"cannot prepare a new process: {error.strerror}") from error
        yield parcel
    finally:
        parcel.close()
