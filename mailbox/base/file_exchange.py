"""Puts a file in the place of another, and gives back what somebody else wrote there meanwhile.

A comparison before a rename cannot see what is written between the two. So the new file and the
old one change names in one step (`RENAME_EXCHANGE`), and what came out is looked at: if it is not
what was to be replaced, both change back. What is new is never put over something that is there.

Some files must keep their place: those with several names, those that are mounts, and all where the
file system knows no exchange. They are written in place, compared by the same descriptor right
before. What somebody else writes into the very file between that look and the last write is lost,
as with any two programs that write one file. Blocks; failures are OSError or ChangedMeanwhile.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

_EXCHANGE, _NO_REPLACE = 2, 1  # RENAME_EXCHANGE, RENAME_NOREPLACE
_NO_SUCH_RENAME = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_BOUND = (*_NO_SUCH_RENAME, errno.EBUSY, errno.EXDEV)  # a mount is EBUSY
_NO_LINK = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_MOST_TURNS = 20  # of giving back, while somebody replaces the file again and again
_CHUNK_BYTES = 1 << 20
_IN_PLACE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NOT_COPIED = ("user.overlay.", "trusted.", "security.")  # attributes; the kernel's own, and marks

_libc = ctypes.CDLL(None, use_errno=True)


class ChangedMeanwhile(ValueError):
    """Somebody else changed the place since it was looked at; what they wrote is still there."""

    def __init__(self, text: str = "it was changed meanwhile") -> None:
        super().__init__(text)


class Place(NamedTuple):
    """A name in a folder that is held open."""

    folder: int
    name: str


Check = Callable[[Place], None]  # raises ChangedMeanwhile: another file stands there


def put_new(fresh: Place, target: Place) -> None:
    """Give `fresh` the name `target`. Raises ChangedMeanwhile if something has that name."""
    try:
        try:
            _rename(fresh, target, _NO_REPLACE)
        except OSError as error:
            if error.errno not in _NO_SUCH_RENAME:
                raise
            _link_new(fresh, target)
    except FileExistsError as error:
        raise ChangedMeanwhile from error


def put_over(fresh: Place, target: Place, check: Check) -> None:
    """Exchange the two; `fresh` names afterwards what stood at `target`.

    `check` is called with `target` before, and with `fresh` afterwards.

    Raises ChangedMeanwhile, also if nothing has the name `target`. OSError: what stands at `target`
    keeps its place (`is_bound`), or the system refused. Nothing is changed then.
    """
    check(target)
    ours = _identity(fresh)
    try:
        _rename(fresh, target, _EXCHANGE)
    except FileNotFoundError as error:
        raise ChangedMeanwhile from error
    try:
        check(fresh)
    except ChangedMeanwhile:
        _give_back(fresh, target, ours)
        raise


def put_away(target: Place, kept: Place, check: Check) -> None:
    """Give what stands at `target` the unused name `kept`, on the same file system.

    Raises ChangedMeanwhile: it is at `target` as before, or, if that name was taken again in this
    moment, at `kept`, which the text names.
    """
    check(target)
    try:
        try:
            _rename(target, kept, _NO_REPLACE)
        except OSError as error:
            if error.errno not in _NO_SUCH_RENAME:
                raise
            os.rename(target.name, kept.name, src_dir_fd=target.folder, dst_dir_fd=kept.folder)
    except FileNotFoundError as error:
        raise ChangedMeanwhile from error
    try:
        check(kept)
    except ChangedMeanwhile:
        try:
            put_new(kept, target)
        except ChangedMeanwhile:
            raise ChangedMeanwhile(
                f"it was changed meanwhile, twice; what was there first is kept as {kept.name}"
            ) from None
        raise


def is_bound(error: OSError) -> bool:
    """True if a file could not be replaced since it keeps its place: write it in place."""
    return error.errno in _BOUND


def has_other_names(target: Place) -> bool:
    """True for a regular file with several names (hard links): a new file would part them."""
    facts = os.stat(target.name, dir_fd=target.folder, follow_symlinks=False)
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink > 1


def write_in_place(target: Place, source: int, mode: int, check: Check) -> None:
    """Give the regular file at `target` the contents of the descriptor `source`, and the mode.

    `check` looks at `target` once it is open. If it cannot be written, the old contents are put
    back. Raises ChangedMeanwhile, OSError.
    """
    try:
        fd = os.open(target.name, _IN_PLACE_FLAGS, dir_fd=target.folder)
    except FileNotFoundError as error:
        raise ChangedMeanwhile from error
    try:
        facts = os.fstat(fd)
        check(target)
        if _identity(target) != (facts.st_dev, facts.st_ino):
            raise ChangedMeanwhile
        _overwrite(fd, source, facts.st_size)
        if stat.S_IMODE(facts.st_mode) != mode:
            os.fchmod(fd, mode)
    finally:
        os.close(fd)


def keep_attributes(old: Place | None, fresh: int, mode: int) -> None:
    """Give a new file the mode, and if it replaces a file, its owner and attributes.

    Those that the system does not let us give are left out.
    """
    if old is None:
        os.fchmod(fresh, mode)
        return
    try:
        with _opened_to_look(old) as fd:
            facts = os.fstat(fd)
            if (facts.st_uid, facts.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(PermissionError):
                    os.fchown(fresh, facts.st_uid, facts.st_gid)
            os.fchmod(fresh, mode)
            _copy_attributes(f"/proc/self/fd/{fd}", fresh)
    except FileNotFoundError:
        os.fchmod(fresh, mode)


@contextmanager
def _opened_to_look(place: Place) -> Iterator[int]:
    """The file itself, also one that cannot be read; a link is not followed."""
    fd = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _copy_attributes(old: str, fresh: int) -> None:
    with suppress(OSError):
        for name in os.listxattr(old):
            if not name.startswith(_NOT_COPIED):
                with suppress(OSError):
                    os.setxattr(fresh, name, os.getxattr(old, name))


def _give_back(fresh: Place, target: Place, ours: tuple[int, int]) -> None:
    """Exchange again until what comes out is ours; the newest of theirs has its place then."""
    for _ in range(_MOST_TURNS):
        try:
            _rename(fresh, target, _EXCHANGE)
        except FileNotFoundError:
            put_new(fresh, target)  # they removed ours: theirs has its place again
            return
        if _identity(fresh) == ours:
            return
    raise ChangedMeanwhile(f"it is replaced again and again; one state of it is {fresh.name}")


def _identity(place: Place) -> tuple[int, int]:
    facts = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    return facts.st_dev, facts.st_ino


def _link_new(fresh: Place, target: Place) -> None:
    """`put_new` where no rename refuses to replace: a second name, then the first one goes."""
    try:
        os.link(fresh.name, target.name, src_dir_fd=fresh.folder, dst_dir_fd=target.folder,
                follow_symlinks=False)  # fmt: skip
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        with suppress(FileNotFoundError):
            os.stat(target.name, dir_fd=target.folder, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.rename(fresh.name, target.name, src_dir_fd=fresh.folder, dst_dir_fd=target.folder)
    else:
        os.unlink(fresh.name, dir_fd=fresh.folder)


def _rename(source: Place, target: Place, flags: int) -> None:
    if not hasattr(_libc, "renameat2"):  # an old C library
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    names = os.fsencode(source.name), os.fsencode(target.name)
    if _libc.renameat2(source.folder, names[0], target.folder, names[1], flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target.name)


def _overwrite(fd: int, source: int, old_size: int) -> None:
    size = os.fstat(source).st_size
    replaced: list[bytes] = []  # chunks of the old contents, from the start
    try:
        if size > old_size:
            os.posix_fallocate(fd, old_size, size - old_size)  # a full disk is known before
        at = 0
        while chunk := os.pread(source, _CHUNK_BYTES, at):
            replaced.append(os.pread(fd, len(chunk), at) if at < old_size else b"")
            _write_at(fd, chunk, at)
            at += len(chunk)
        os.ftruncate(fd, at)
    except OSError:
        _write_at(fd, b"".join(replaced)[:old_size], 0)
        os.ftruncate(fd, old_size)
        raise


def _write_at(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done
