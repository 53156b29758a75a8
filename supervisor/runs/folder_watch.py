"""Checks once a second that a run's lock and mailbox socket still exist.

No run continues where nobody can see it. If its folder was deleted or moved away, it cannot write
any more and no other terminal finds it: it ends with an error.
"""

import os
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.private_files import write_own_file
from swarm.mailbox.protocol.values.base import Value

from .paths import RunPaths

_ROUND_S = 2.0  # an idle run is to cost next to nothing
_START_TIME_FIELD = 19  # field of proc(5) stat, counted after the name


class FolderGone(SwarmError):
    """The run's folder or its mailbox socket was removed; the text names it."""


class RunOwner(Value):
    """The process that holds a run, from a file in its socket folder (no command can write it)."""

    pid: int
    started: int  # clock ticks: tells the process from a later one with the same pid
    folder: str  # the run's
    device: int
    inode: int  # of its lock


def write_owner(run_paths: RunPaths, lock_fd: int) -> None:
    """Write which process holds this run. Raises SwarmError."""
    facts = os.fstat(lock_fd)
    owner = RunOwner(
        pid=os.getpid(),
        started=process_start_ticks(os.getpid()),
        folder=str(run_paths.folder),
        device=facts.st_dev,
        inode=facts.st_ino,
    )
    try:
        write_own_file(run_paths.owner_file, msgspec.json.encode(owner))
    except OSError as error:
        raise SwarmError(
            f"cannot write {run_paths.owner_file}: {error.strerror}; free some space there, or set "
            "XDG_RUNTIME_DIR to another folder"
        ) from error


def read_owner(file: Path) -> RunOwner | None:
    """The owner in `file`; None if there is no such file, or it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=RunOwner)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def is_lock_gone(lock: Path, device: int, inode: int) -> bool:
    """True only if the lock is certainly gone: a disk that does not answer proves nothing."""
    try:
        facts = os.stat(lock, follow_symlinks=False)  # noqa: PTH116 — once a second, for ever
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return (facts.st_dev, facts.st_ino) != (device, inode)


def exists(path: Path) -> bool:
    """A short check on a local disk or in memory: needs no thread."""
    return path.exists()


def process_start_ticks(pid: int) -> int:
    """When a process started, in clock ticks. Raises OSError if there is none."""
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    return int(stat.rpartition(b") ")[2].split()[_START_TIME_FIELD])


async def watch_folders(run_paths: RunPaths, lock_fd: int) -> None:
    """Run until cancelled. Raises FolderGone."""
    ours = os.fstat(lock_fd)
    post = Path(run_paths.mailbox_endpoint.removeprefix("ipc://"))
    was_open = exists(post)
    while True:
        await trio.sleep(_ROUND_S)
        if is_lock_gone(run_paths.lock, ours.st_dev, ours.st_ino):
            raise FolderGone(
                f"{run_paths.folder}, the folder of this run, was deleted or moved away: nothing "
                "more can be written there, so everything of this run is ended"
            )
        if was_open and not exists(post):
            raise FolderGone(
                f"{post}, by which agents reach this run, was deleted: no other can start, so the "
                f"run is ended; `swarm resume {short_id(run_paths.folder.name)}` goes on"
            )
