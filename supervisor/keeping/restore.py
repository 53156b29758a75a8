"""Putting files back as a snapshot has them.

Rule guarded: only what is as the snapshot's call left it is touched, unless a person insists; and
no link that lies in the way leads anywhere else: every step is opened without following one.
Blocks: call it in a thread.
"""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.protocol.base import Value

from .store import Entry, Store, look_at

_CHUNK_BYTES = 1024 * 1024


class Plan(Value):
    """What an undo would do. `left`: changed since by somebody else."""

    restore: tuple[Entry, ...] = ()
    left: tuple[str, ...] = ()


def plan_undo(before: Sequence[Entry], after: Sequence[Entry], *, force: bool) -> Plan:
    """Compare the snapshot with what is there.

    Args:
        before: What the snapshot holds.
        after: What its call left; () = nobody looked, and then only what is missing comes back.
        force: Also over what others changed since.
    """
    left_by_call = {entry.path: entry for entry in after}
    restore: list[Entry] = []
    left: list[str] = []
    for entry in before:
        now = look_at(entry.path, like=entry)
        if now.is_same_as(entry):
            continue
        known = left_by_call.get(entry.path)
        untouched = now.kind == "absent" or (known is not None and now.is_same_as(known))
        if untouched or force:
            restore.append(entry)
        else:
            left.append(entry.path)
    return Plan(restore=tuple(restore), left=tuple(left))


def put_back(plan: Plan, store: Store) -> tuple[int, tuple[str, ...]]:
    """Do it; returns how many were put back, and which could not be and why."""
    done = 0
    failed: list[str] = []
    for entry in plan.restore:
        try:
            _put(entry, store)
            done += entry.kind != "folder"
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            failed.append(f"{entry.path}: {why}")
    return done, tuple(failed)


def _put(entry: Entry, store: Store) -> None:
    where = Path(entry.path)
    folder = _open_folder(where.parent)
    try:
        match entry.kind:
            case "folder":
                with suppress(FileExistsError):
                    os.mkdir(where.name, entry.mode, dir_fd=folder)
            case "link":
                _replace(folder, where.name, lambda name: _make_link(folder, name, entry))
            case "file":
                _replace(folder, where.name, lambda name: _make_file(folder, name, entry, store))
            case "absent":
                with suppress(FileNotFoundError):
                    os.unlink(where.name, dir_fd=folder)
    finally:
        os.close(folder)


def _open_folder(path: Path) -> int:
    """A folder by its canonical path, made where missing; a link on the way is refused."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    here = os.open("/", flags)
    for step in path.parts[1:]:
        try:
            try:
                below = os.open(step, flags, dir_fd=here)
            except FileNotFoundError:
                os.mkdir(step, 0o755, dir_fd=here)
                below = os.open(step, flags, dir_fd=here)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise ValueError(f"{step} on the way is no folder any more") from error
            raise
        finally:
            os.close(here)
        here = below
    return here


def _replace(folder: int, name: str, make: Callable[[str], None]) -> None:
    """Make it under another name, then put it in place in one step."""
    fresh = f".{name[:200]}.swarm-undo-{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=folder)
    try:
        make(fresh)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise


def _make_link(folder: int, name: str, entry: Entry) -> None:
    os.symlink(entry.target, name, dir_fd=folder)


def _make_file(folder: int, name: str, entry: Entry, store: Store) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    source = store.open(entry.sha256)
    try:
        target = os.open(name, flags, 0o600, dir_fd=folder)
        try:
            while chunk := os.read(source, _CHUNK_BYTES):
                view = memoryview(chunk)
                while view:
                    view = view[os.write(target, view) :]
            os.fchmod(target, entry.mode)
            os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(target)
    finally:
        os.close(source)
