"""The folder in which all runs of one person on this machine tell each other of their leases.

Each run has one file there, which its supervisor holds locked from its first heavy command to its
end: the kernel frees the lock when the supervisor dies, however it dies, and with that all its
leases. One more lock orders the changes. The folder is in the runtime folder, which no sandboxed
command sees; what is read there is bounded and checked all the same.
"""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.safe_open import read_whole
from swarm.mailbox.protocol.values.base import Value

from ...runs.paths import make_private_folder
from .lease_scheduler import Ticket

FRESH_S = 5.0  # what an older file says of waiting is not counted: its supervisor stands still
_STANDING_S = 1800.0  # nor what it says of holding, after this
_MOST_FILES, _MOST_TICKETS = 256, 1_000
_MOST_BYTES = 1 << 20
_MOST_PUBLISHED = 400  # so many fit in `_MOST_BYTES`, whatever their texts hold
_MOST_CHARS = 400  # of a text of another run
_NAME = re.compile(r"[0-9A-Za-z_-]{1,80}\.json\Z")
_ORDER_LOCK = "order"
_FORMAT = 1
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LeaseFolderBusy(SwarmError):
    """Another process holds the lock of the lease folder; try again in some milliseconds."""


class RunLeases(Value):
    """The content of one run's file."""

    format: int
    run: str
    pid: int
    updated_s: float
    tickets: tuple[Ticket, ...] = ()


_decode = msgspec.json.Decoder(RunLeases).decode
_encode = msgspec.json.Encoder().encode


class LeaseFolder:
    """One run's access to the folder; nothing is made before the first `open_exclusive`."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder, self._run = folder, run
        self._own_fd = -1

    @contextmanager
    def open_exclusive(self) -> Iterator["ExclusiveAccess"]:
        """Read and write alone during the block, which must not wait for anything.

        Raises LeaseFolderBusy, SwarmError, OSError.
        """
        make_private_folder(self._folder)
        order_fd = os.open(self._folder / _ORDER_LOCK, _WRITE, 0o600)
        try:
            try:
                fcntl.flock(order_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LeaseFolderBusy("the lease folder is in use by another run") from error
            self._own_file()
            yield ExclusiveAccess(self._folder, self._run, self._own_fd)
        finally:
            os.close(order_fd)

    def close(self) -> None:
        """Give back all leases of this run."""
        if self._own_fd >= 0:
            with suppress(OSError):
                os.ftruncate(self._own_fd, 0)
            with suppress(OSError):
                (self._folder / f"{self._run}.json").unlink()
            os.close(self._own_fd)
            self._own_fd = -1

    def _own_file(self) -> None:
        """Make and lock this run's file, or make it again if it is gone."""
        path = self._folder / f"{self._run}.json"
        if self._own_fd >= 0:
            with suppress(OSError):
                if os.path.samestat(os.fstat(self._own_fd), path.lstat()):
                    return
            os.close(self._own_fd)
            self._own_fd = -1
        fd = os.open(path, _WRITE, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise SwarmError(f"{path} is locked by another process") from error
        self._own_fd = fd


class ExclusiveAccess:
    """The folder while no other process changes it."""

    def __init__(self, folder: Path, run: str, own_fd: int) -> None:
        self._folder, self._run, self._own_fd = folder, run, own_fd

    def read_others(self, now: float) -> list[Ticket]:
        """The tickets of all other live runs; files of dead runs are removed."""
        return [one for leases in _read_runs(self._folder, removes=True, besides=self._run)
                for one in counted_tickets(leases, now)]  # fmt: skip

    def publish(self, tickets: Iterable[Ticket], now: float) -> None:
        """Write this run's tickets; of too many those that hold leases first. Raises OSError."""
        told = sorted(tickets, key=lambda one: not one.holds_lease)[:_MOST_PUBLISHED]
        leases = RunLeases(
            format=_FORMAT, run=self._run, pid=os.getpid(), updated_s=now, tickets=tuple(told)
        )
        data = _encode(leases)
        os.ftruncate(self._own_fd, 0)
        os.pwrite(self._own_fd, data, 0)


def counted_tickets(leases: RunLeases, now: float) -> tuple[Ticket, ...]:
    """The tickets of a run that count now."""
    return still_counted(leases.tickets, written_s=leases.updated_s, now=now)


def still_counted(
    tickets: tuple[Ticket, ...], *, written_s: float, now: float
) -> tuple[Ticket, ...]:
    """A supervisor that stands still waits for nothing, and holds what it has for half an hour.

    One that lives writes now and then while it holds a lease, however long that may be.
    """
    if abs(now - written_s) <= FRESH_S:
        return tickets
    return tuple(
        one
        for one in tickets
        if one.given_s is not None and now - max(one.given_s, written_s) <= _STANDING_S
    )


def look(folder: Path) -> list[RunLeases]:
    """What each live run has written; changes nothing. Raises LeaseFolderBusy."""
    try:
        order_fd = os.open(folder / _ORDER_LOCK, _READ)
    except OSError:
        return []  # no run has used it yet
    try:
        fcntl.flock(order_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _read_runs(folder, removes=False)
    except BlockingIOError as error:
        raise LeaseFolderBusy("the lease folder is in use by a run") from error
    finally:
        os.close(order_fd)


def _read_runs(folder: Path, *, removes: bool, besides: str = "") -> list[RunLeases]:
    """What each live run has written. A file that nobody holds locked is of a dead run.

    Call it with the folder's lock held: to look at a file's lock means to take it for a moment.
    """
    try:
        names = sorted(one.name for one in folder.iterdir() if _NAME.match(one.name))
    except OSError:
        return []
    names = [name for name in names if name != f"{besides}.json"][:_MOST_FILES]
    found = (_read_run(folder / name, removes=removes) for name in names)
    return [one for one in found if one is not None]


def _read_run(path: Path, *, removes: bool) -> RunLeases | None:
    try:
        fd = os.open(path, _READ)
    except OSError:
        return None
    try:
        facts = os.fstat(fd)
        if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
            return None  # not ours: it says nothing here
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            leases = _decode(read_whole(os.dup(fd), most_bytes=_MOST_BYTES))
            return _checked(leases, path)
        if removes:
            path.unlink(missing_ok=True)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        os.close(fd)
    return None


def _checked(leases: RunLeases, path: Path) -> RunLeases | None:
    """The content if it is sound, of the run that the file is named after."""
    is_sound = (
        leases.format == _FORMAT
        and f"{leases.run}.json" == path.name
        and len(leases.tickets) <= _MOST_TICKETS
        and all(_is_sound(one, leases.run) for one in leases.tickets)
    )
    return leases if is_sound else None


def _is_sound(one: Ticket, run: str) -> bool:
    texts = (one.agent, one.command)
    return (
        one.run == run
        and all(len(text) <= _MOST_CHARS for text in texts)
        and 0 <= one.memory_bytes < 1 << 50
        and 0 <= one.cpus < 1 << 16
        and one.pid >= 0
    )
