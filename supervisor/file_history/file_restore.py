"""Restores files from snapshots.

Without `force`, only files that are still as the agents' call left them are touched. Every path
component is opened without following links, so a link in the way cannot redirect a write. Blocks:
call it in a thread.
"""

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.safe_open import FOLDER_FLAGS, open_beneath, open_canonical

from .content_store import UNKNOWN, ContentStore, FileEntry, read_entry, read_kind
from .net_changes import NetChange, others_of

_CHUNK_BYTES = 1024 * 1024
_FOLDER_MODE = 0o755


class UndoPlan(Value):
    """What an undo will do. `left`: changed since by somebody else; `lost`: there is no copy."""

    restore: tuple[FileEntry, ...] = ()
    left: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()  # with agents whose work is not undone
    lost: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # as the caller wants


def plan_changes(
    edits: Iterable[NetChange],
    *,
    agents: Collection[str],
    force: bool,
    keep: Collection[str] = (),
) -> UndoPlan:
    """Compare what the agents changed with the present files.

    Args:
        edits: The changes to undo. Where the state after the call is not known, only missing files
            are restored.
        agents: The agents whose work is undone.
        force: Also overwrite what others changed since, or may have changed at the same time.
        keep: Paths that are not restored.
    """
    kept: list[str] = []
    restore: list[FileEntry] = []
    left: list[str] = []
    shared: list[str] = []
    lost: list[str] = []
    for edit in edits:
        now = read_entry(edit.path)
        if edit.has_copy and now.is_same_as(edit.before):
            continue
        if edit.path in keep:
            kept.append(edit.path)
        elif not edit.has_copy:
            lost.append(edit.path)
        elif force:
            restore.append(edit.before)
        elif others_of(edit, agents):
            shared.append(edit.path)
        elif now.kind == "absent" or (not edit.is_broken and _is_unchanged(now, edit.after)):
            restore.append(edit.before)
        else:
            left.append(edit.path)
    if force:
        restore += _folders_in_the_way(restore)
    return UndoPlan(
        restore=in_order(restore),
        left=tuple(left),
        shared=tuple(shared),
        lost=tuple(lost),
        kept=tuple(kept),
    )


def _folders_in_the_way(entries: Iterable[FileEntry]) -> list[FileEntry]:
    """Folder entries for links and files that stand where a restored path needs a folder.

    They become part of the plan, so the undo's own snapshot keeps what stood there.
    """
    entries = tuple(entries)
    spoken = {entry.path for entry in entries}
    wanted = {
        str(above)
        for entry in entries
        if entry.kind != "absent"
        for above in Path(entry.path).parents
    }
    return [
        FileEntry(path=path, kind="folder", mode=_FOLDER_MODE)
        for path in sorted(wanted - spoken)
        if read_kind(path) in ("link", "file")
    ]


def _is_unchanged(now: FileEntry, after: FileEntry | None) -> bool:
    if after is None:
        return False
    if after.sha256 == UNKNOWN:  # too large to read again: compare its times
        return (now.kind, now.size, now.mtime_ns) == (after.kind, after.size, after.mtime_ns)
    return now.is_same_as(after)


def in_order(entries: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """Removals first, deepest first; then additions, folders before their contents."""
    there = sorted((one for one in entries if one.kind != "absent"), key=lambda one: one.path)
    gone = sorted((one for one in entries if one.kind == "absent"), key=lambda one: one.path)
    return (*reversed(gone), *there)


def restore_files(plan: UndoPlan, store: ContentStore) -> tuple[int, tuple[str, ...]]:
    """Carry out the plan; returns how many files were restored, and which failed and why."""
    done = 0
    failed: list[str] = []
    for entry in plan.restore:
        was_file = read_kind(entry.path) != "folder"
        try:
            restore_entry(entry, store)
            done += entry.kind != "folder" and not (entry.kind == "absent" and not was_file)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            failed.append(f"{entry.path}: {why}")
    return done, tuple(failed)


def _no_check() -> None:
    pass


def restore_entry(
    entry: FileEntry, store: ContentStore, check: Callable[[], None] = _no_check
) -> None:
    """Give the path this state. `check` is called right before the path is touched.

    Raises OSError; ValueError if others changed the place. Also what `check` raises: then the path
    is as it was.
    """
    where = Path(entry.path)
    folder = _open_folder(where.parent)

    def make_file(name: str) -> None:
        if entry.kind == "link":
            _make_link(folder, name, entry)
        else:
            _make_file(folder, name, entry, store)
        check()

    try:
        match entry.kind:
            case "folder":
                check()
                _make_folder(folder, where.name, entry.mode)
            case "link" | "file":
                _replace(folder, where.name, make_file)
            case "absent":
                check()
                _remove(folder, where.name)
    finally:
        os.close(folder)


def _remove(folder: int, name: str) -> None:
    """Remove a file, a link or an empty folder."""
    with suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if error.errno == errno.ENOTEMPTY:
                    raise ValueError("it holds files of somebody else") from error
                raise


def _make_folder(folder: int, name: str, mode: int) -> None:
    """Create a folder; a link or file in its place is removed (the undo's snapshot has a copy)."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return
        os.unlink(name, dir_fd=folder)
    os.mkdir(name, mode, dir_fd=folder)


def _open_folder(path: Path) -> int:
    """Open a folder by its canonical path, creating missing parts; a link on the way is refused."""
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            return open_canonical(str(path), FOLDER_FLAGS)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
    here = os.open("/", FOLDER_FLAGS)
    for step in path.parts[1:]:
        try:
            with suppress(FileExistsError):
                os.mkdir(step, _FOLDER_MODE, dir_fd=here)
            below = open_beneath(here, step, FOLDER_FLAGS)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise ValueError(f"{step} on the way is no folder any more") from error
            raise
        finally:
            os.close(here)
        here = below
    return here


def _replace(folder: int, name: str, make: Callable[[str], None]) -> None:
    """Create it under a temporary name, then rename it into place."""
    fresh = f".{name[:200]}.swarm-undo-{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=folder)
    try:
        make(fresh)
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                _remove(folder, name)  # a file cannot be renamed over a folder
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise


def _make_link(folder: int, name: str, entry: FileEntry) -> None:
    os.symlink(entry.target, name, dir_fd=folder)


def _make_file(folder: int, name: str, entry: FileEntry, store: ContentStore) -> None:
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
