"""Changes several paths: all new contents first, under temporary names, then nothing but renames.

So a full disk is known before anything is removed, and what was done can be taken back without
room: what was replaced keeps a temporary name until the end. Every path is compared in the moment
of its change (`mailbox.file_exchange`): what somebody else wrote meanwhile is theirs, and stays.
Every folder is opened through no link. Blocks: call it in a thread.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from swarm.mailbox.base.file_exchange import (
    ChangedMeanwhile,
    Place,
    has_other_names,
    is_bound,
    keep_attributes,
    put_away,
    put_new,
    put_over,
    write_in_place,
)
from swarm.mailbox.base.safe_open import (
    FOLDER_FLAGS,
    READ_FLAGS,
    open_beneath,
    open_canonical,
    read_whole,
    scan_folder,
)
from swarm.mailbox.base.sparse_copy import copy_sparse

from .content_store import ContentStore, FileEntry, read_entry_at

_FOLDER_MODE = 0o755
_MOST_TORN_BYTES = 64 << 20
_PART = ".part"  # ends the temporary name of contents that are not whole, or wait for their place
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Pair = tuple[FileEntry, FileEntry]  # of one path: before and after
Failures = list[tuple[str, OSError | ValueError]]


class _Step(msgspec.Struct):
    """`kept_in`: the folder in which `temporary` names the new contents, later the old ones."""

    before: FileEntry
    after: FileEntry
    temporary: str
    kept_in: str = ""
    is_done: bool = False
    is_in_place: bool = False

    @property
    def path(self) -> str:
        return self.after.path


class StagedWrites:
    """`name` is part of all temporary names: a later look finds what a kill left (`recover`).

    With `parts_names` a file with several names (hard links) is replaced, and the others stay as
    they are; else it is written in place.
    """

    def __init__(
        self, name: str, pairs: Sequence[Pair], store: ContentStore, *, parts_names: bool = False
    ) -> None:
        self._store, self._parts_names = store, parts_names
        by_path = {after.path: before for before, after in pairs}
        order = in_order(after for _, after in pairs)
        self._steps = [_Step(by_path[one.path], one, _name_of(name, one.path)) for one in order]
        self._failed: set[str] = set()
        self._gone = {
            before.path
            for before, after in pairs
            if before.kind == "folder" and after.kind != "folder"
        }

    def stage(self) -> Failures:
        """Write all new contents. What fails here is left out of `carry_out`."""
        wanted = [one for one in self._steps if one.after.kind in ("file", "link")]
        return self._each(wanted, self._stage)

    def carry_out(self, *, whole: bool) -> Failures:
        """Change the paths. With `whole` it ends at the first that fails."""
        wanted = [one for one in self._steps if one.path not in self._failed]
        return self._each(wanted, self._change, ends=whole)

    def take_back(self) -> Failures:
        """Undo what `carry_out` did; returns what could not be. What is theirs meanwhile stays."""
        failed: Failures = []
        for step in reversed(self._steps):
            if step.is_done:
                try:
                    self._take_back(step)
                    step.is_done = False
                except ChangedMeanwhile:
                    continue
                except (OSError, ValueError) as error:
                    failed.append((step.path, error))
        return failed

    def clear(self) -> Failures:
        """Remove what has a temporary name: the old contents, or new ones that were not used.

        What somebody wrote into the old file since it was replaced is no such thing: it is left
        there, and named.
        """
        failed: Failures = []
        for step in self._steps:
            if step.kept_in:
                try:
                    with _opened(step.kept_in) as folder:
                        _unlink(Place(folder, step.temporary + _PART))
                        _clear(Place(folder, step.temporary), step.before, step.after)
                except (OSError, ValueError) as error:
                    failed.append((step.path, error))
        return failed

    def _each(
        self, steps: Sequence[_Step], work: Callable[[_Step], None], *, ends: bool = False
    ) -> Failures:
        failed: Failures = []
        for step in steps:
            try:
                work(step)
            except (OSError, ValueError) as error:
                self._failed.add(step.path)
                failed.append((step.path, error))
                if ends:
                    break
        return failed

    # --- one path ----------------------------------------------------------------------------

    def _stage(self, step: _Step) -> None:
        step.kept_in = _nearest_folder(step.path)
        with _opened(step.kept_in) as folder:
            fresh = Place(folder, step.temporary)
            _unlink(fresh)
            if step.after.kind == "link":
                os.symlink(step.after.target, fresh.name, dir_fd=folder)
                return
            part = Place(folder, fresh.name + _PART)
            _unlink(part)
            try:
                self._make_file(part, step)
                os.rename(part.name, fresh.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                _unlink(part)
                raise

    def _make_file(self, place: Place, step: _Step) -> None:
        entry = step.after
        source = self._store.open(entry.sha256)
        try:
            target = os.open(place.name, _CREATE, 0o600, dir_fd=place.folder)
            try:
                copy_sparse(source, target)
                old = Place(place.folder, Path(step.path).name)
                keep_attributes(old if step.before.kind == "file" else None, target, entry.mode)
                os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _change(self, step: _Step) -> None:
        if step.after.kind == "absent" and step.before.kind == "absent":
            return
        with _opened(str(Path(step.path).parent), make=step.after.kind != "absent") as folder:
            target = Place(folder, Path(step.path).name)
            match step.after.kind:
                case "absent":
                    self._remove(step, target)
                case "folder":
                    self._make_folder(step, target)
                case "file" | "link":
                    self._put(step, target)
        step.is_done = True

    def _remove(self, step: _Step, target: Place) -> None:
        if step.before.kind == "folder":
            _remove_folder(target)
            return
        kept_in = next(str(one) for one in Path(step.path).parents if str(one) not in self._gone)
        with _opened(kept_in) as near:
            put_away(target, Place(near, step.temporary), _is(step.before))
        step.kept_in = kept_in

    def _make_folder(self, step: _Step, target: Place) -> None:
        if step.before.kind in ("file", "link"):
            self._remove(step, target)
            step.is_done = True  # also if the folder then cannot be made
        with suppress(FileExistsError):
            os.mkdir(target.name, step.after.mode or _FOLDER_MODE, dir_fd=target.folder)
            return
        _is(FileEntry(path=step.path, kind="folder"))(target)

    def _put(self, step: _Step, target: Place) -> None:
        with _opened(step.kept_in) as folder:
            fresh = Place(folder, step.temporary)
            if step.before.kind == "folder":
                _remove_folder(target)
                step.is_done = True
            if step.before.kind in ("folder", "absent"):
                put_new(fresh, target)
                return
            self._replace(step, fresh, target)

    def _replace(self, step: _Step, fresh: Place, target: Place) -> None:
        is_plain = (step.before.kind, step.after.kind) == ("file", "file")
        _is(step.before)(target)
        try:
            if is_plain and not self._parts_names and has_other_names(target):
                raise OSError(errno.EBUSY, "it has several names")
            _exchange(fresh, target, _is(step.before), is_plain=is_plain)
        except OSError as error:
            if not (is_plain and is_bound(error)):
                raise
            self._write_in_place(target, step.after, expected=step.before)
            step.is_in_place = True

    def _write_in_place(self, target: Place, entry: FileEntry, *, expected: FileEntry) -> None:
        source = self._store.open(entry.sha256)
        try:
            write_in_place(target, source, entry.mode, _is(expected))
        finally:
            os.close(source)
        with suppress(OSError):
            os.utime(target.name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=target.folder)

    def _take_back(self, step: _Step) -> None:
        with _opened(str(Path(step.path).parent)) as folder:
            target = Place(folder, Path(step.path).name)
            if step.is_in_place:
                self._write_in_place(target, step.before, expected=step.after)
                return
            if step.after.kind == "folder" and step.before.kind != "folder":
                _remove_folder(target)
            if step.before.kind == "folder":
                _restore_folder(step, target)
                return
            if not step.kept_in:
                return
            with _opened(step.kept_in) as near:
                kept = Place(near, step.temporary)
                if step.before.kind == "absent":
                    put_away(target, kept, _is(step.after))
                elif step.after.kind in ("file", "link"):
                    is_plain = (step.before.kind, step.after.kind) == ("file", "file")
                    _exchange(kept, target, _is(step.after), is_plain=is_plain)
                else:
                    put_new(kept, target)


def in_order(entries: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """Removals first, deepest first; then additions, folders before their contents."""
    entries = tuple(entries)
    there = sorted((one for one in entries if one.kind != "absent"), key=lambda one: one.path)
    gone = sorted((one for one in entries if one.kind == "absent"), key=lambda one: one.path)
    return (*reversed(gone), *there)


def recover(name: str, pairs: Sequence[Pair], store: ContentStore) -> list[str]:
    """Remove what a killed `StagedWrites` of this name left beside these paths.

    A file whose writing in place was cut off is written whole. What somebody else had written, and
    the kill kept from being given back, gets its place again; if that is taken, it stays under its
    temporary name, which is returned.
    """
    names = {_name_of(name, after.path): (before, after) for before, after in pairs}
    left: list[str] = []
    for folder in {str(one) for _, after in pairs for one in Path(after.path).parents}:
        with suppress(OSError, ValueError), _opened(folder) as here:
            for found in _temporary_names(folder, name):
                if found in names:
                    with suppress(OSError, ValueError):
                        _complete_torn(*names[found], store)
                if found.endswith(_PART):
                    _unlink(Place(here, found))
                elif found in names and not _settle(Place(here, found), *names[found]):
                    left.append(f"{folder.rstrip('/')}/{found}")
    return left


def _settle(kept: Place, before: FileEntry, after: FileEntry) -> bool:
    """False: it belongs to somebody, and its place is taken."""
    if _is_same(kept, before) or _is_same(kept, after):
        _unlink(kept)
        return True
    try:
        with _opened(str(Path(after.path).parent), make=True) as folder:
            target = Place(folder, Path(after.path).name)
            if after.kind in ("file", "link"):
                put_over(kept, target, _is(after))
                _unlink(kept)
            else:
                put_new(kept, target)
    except (OSError, ValueError):
        return False
    return True


def _complete_torn(before: FileEntry, after: FileEntry, store: ContentStore) -> None:
    """Give the file its new contents if it has the first part of them, and else the old ones."""
    is_plain = (before.kind, after.kind) == ("file", "file")
    if not is_plain or max(before.size, after.size) > _MOST_TORN_BYTES:
        return
    with _opened(str(Path(after.path).parent)) as folder:
        target = Place(folder, Path(after.path).name)
        with suppress(FileNotFoundError):
            torn = read_entry_at(target, after.path)
            data = read_whole(
                open_beneath(folder, target.name, READ_FLAGS), most_bytes=_MOST_TORN_BYTES
            )
            old, new = store.read_bytes(before.sha256), store.read_bytes(after.sha256)
            if data not in (old, new) and is_torn(data, old, new):
                source = store.open(after.sha256)
                try:
                    write_in_place(target, source, after.mode, _is(torn))
                finally:
                    os.close(source)


def is_torn(now: bytes, old: bytes, new: bytes) -> bool:
    """True for what a kill leaves in a file that was written in place, from the start."""
    if len(now) != max(len(old), len(new)):
        return False
    low, high = 0, min(len(now), len(new))  # how much of it is new
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if now[:middle] == new[:middle] else (low, middle - 1)
    return now[low:] == old.ljust(len(now), b"\0")[low:]


def _clear(kept: Place, before: FileEntry, after: FileEntry) -> None:
    now = read_entry_at(kept, after.path)
    if now.kind == "absent" and not now.target:
        return
    if not (_is_same(kept, before) or _is_same(kept, after)):
        raise ChangedMeanwhile(f"somebody wrote into it; that is kept as {kept.name} beside it")
    _unlink(kept)


def _exchange(
    fresh: Place, target: Place, check: Callable[[Place], None], *, is_plain: bool
) -> None:
    """Exchange the two; where no exchange can be had, in three renames, but for plain files."""
    try:
        put_over(fresh, target, check)
    except OSError as error:
        if is_plain or not is_bound(error):
            raise
        waiting = Place(fresh.folder, fresh.name + _PART)
        put_new(fresh, waiting)
        try:
            put_away(target, fresh, check)
            try:
                put_new(waiting, target)
            except (OSError, ValueError):
                put_new(fresh, target)
                raise
        except (OSError, ValueError):
            put_new(waiting, fresh)
            raise


def _temporary_names(folder: str, name: str) -> list[str]:
    with scan_folder(folder) as entries:
        return [one.name for one in entries if one.name.startswith(f".swarm-{name}-")]


def _name_of(name: str, path: str) -> str:
    return f".swarm-{name}-{sha256(path.encode()).hexdigest()[:16]}"


def _is(expected: FileEntry) -> Callable[[Place], None]:
    def check(place: Place) -> None:
        if not _is_same(place, expected):
            raise ChangedMeanwhile

    return check


def _is_same(place: Place, expected: FileEntry) -> bool:
    now = read_entry_at(place, expected.path)
    plain = msgspec.structs.replace(now, mode=now.mode & 0o777)
    return now.is_same_as(expected) or plain.is_same_as(expected)


def _unlink(place: Place) -> None:
    """Remove it if it is there. Where nothing can be removed, only what is there is a failure."""
    try:
        os.unlink(place.name, dir_fd=place.folder)
    except FileNotFoundError:
        return
    except OSError:  # a read-only disk says so before it looks
        with suppress(FileNotFoundError):
            os.lstat(place.name, dir_fd=place.folder)
            raise


def _remove_folder(target: Place) -> None:
    try:
        os.rmdir(target.name, dir_fd=target.folder)
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise ChangedMeanwhile from error
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise ChangedMeanwhile("it holds files of somebody else") from error
        raise


def _restore_folder(step: _Step, target: Place) -> None:
    """Make again the folder that was removed for the step."""
    if step.after.kind == "folder":
        return
    nothing = FileEntry(path=step.path, kind="absent")
    if step.after.kind != "absent" and not _is_same(target, nothing):
        with _opened(step.kept_in) as near:
            put_away(target, Place(near, step.temporary), _is(step.after))
    try:
        os.mkdir(target.name, step.before.mode & 0o777 or _FOLDER_MODE, dir_fd=target.folder)
    except FileExistsError as error:
        raise ChangedMeanwhile from error


def _nearest_folder(path: str) -> str:
    """The nearest folder above that is there; a link or a file on the way is passed over."""
    for above in Path(path).parents:
        with suppress(OSError):
            os.close(open_canonical(str(above), FOLDER_FLAGS))
            return str(above)
    return "/"


@contextmanager
def _opened(path: str, *, make: bool = False) -> Iterator[int]:
    """The folder at a canonical path; with `make`, missing parts are made. No link is followed.

    Raises OSError; ValueError if something else than a folder is on the way.
    """
    folder = _open_or_make(path) if make else _open_folder(path)
    try:
        yield folder
    finally:
        os.close(folder)


def _open_folder(path: str) -> int:
    try:
        return open_canonical(path, FOLDER_FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
            raise ChangedMeanwhile("a folder on the way is none any more") from error
        raise


def _open_or_make(path: str) -> int:
    with suppress(OSError):
        return open_canonical(path, FOLDER_FLAGS)
    here = os.open("/", FOLDER_FLAGS)
    for step in Path(path).parts[1:]:
        try:
            with suppress(FileExistsError):
                os.mkdir(step, _FOLDER_MODE, dir_fd=here)
            below = open_beneath(here, step, FOLDER_FLAGS)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise ChangedMeanwhile(f"{step} on the way is not a folder any more") from error
            raise
        finally:
            os.close(here)
        here = below
    return here
