"""Guards protected names that do not exist, or are links, while commands run.

A missing name is guarded by a placeholder: an empty folder that bwrap binds read-only over itself.
It carries a telltale modification time and a shared lock of each user; the last user removes it, so
the folder is then as before. After a crash the next run recognises and removes it.

Where a broker makes what is new (Landlock), no command can make such a name. If the name exists
afterwards, another program made it; it is reported and left alone. Where neither holds (Landlock on
an old kernel), and for links, which cannot be mounted on, whatever appeared at the name is renamed
to `NAME.moved-aside-…` and the link is restored. Every such find is reported and fails the command.

This process is not confined, and a command may swap any folder above a name for a link. So the
name's folder is opened once, through no link, and every operation uses that descriptor.
"""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.base.path_rules import PLACEHOLDER_MTIME_NS
from swarm.mailbox.base.safe_open import FOLDER_FLAGS, PATH_FLAGS, open_canonical

from .mount_fingerprint import is_same_file
from .sandbox_plan import SandboxPlan

_MOST_TRIES = 16


class _NameInFolder(NamedTuple):
    """A name in a folder that is held open."""

    folder: int
    name: str
    path: str  # at the start, for messages


class PlaceholderGuard:
    """Held while a command lives; `close` restores the folder."""

    def __init__(self, plan: SandboxPlan, *, brokered: bool = False) -> None:
        """Make placeholders and remember links. Raises OSError if one cannot be made.

        With `brokered` no command can make, remove or replace any of the names.
        """
        self._is_brokered = brokered
        self._locks: dict[_NameInFolder, int] = {}
        self._folders: dict[str, int] = {}  # held open: a command may put links in their place
        self._absent: list[_NameInFolder] = []
        self._links: dict[_NameInFolder, str] = {}
        try:
            self._look(plan)
        except OSError:
            self.close()
            raise

    def _look(self, plan: SandboxPlan) -> None:
        for place in self._open_names(plan.links):
            if (target := _read_link(place)) is not None:
                self._links[place] = target
        missing = self._open_names(plan.missing)
        if plan.stack != "bwrap":
            self._absent = missing
            return
        for place in missing:
            if (lock := _try_lock_placeholder(place)) is not None:
                self._locks[place] = lock

    def _open_names(self, paths: tuple[str, ...]) -> list[_NameInFolder]:
        """Open each name's folder, so that it is found even if it is renamed. Raises OSError."""
        found: list[_NameInFolder] = []
        for path in paths:
            folder, _, name = path.rpartition("/")
            if folder not in self._folders:
                try:
                    self._folders[folder] = open_canonical(folder or "/", PATH_FLAGS)
                except FileNotFoundError:
                    continue  # gone: there is nothing, and no command can see it
            found.append(_NameInFolder(self._folders[folder], name, path))
        return found

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The missing names that exist now as placeholders, while the guard is held."""
        return tuple(place.path for place in self._locks)

    def is_intact(self) -> bool:
        """True while every placeholder is the one that was made or found."""
        return all(is_same_file(place.path, lock) for place, lock in self._locks.items())

    def close(self) -> tuple[str, ...]:
        """Remove placeholders that no other command uses.

        Returns what has appeared at protected names, and what was done with it.
        """
        for place, lock in self._locks.items():
            _release_placeholder(place, lock)
        self._locks.clear()
        found = [self._handle_intruder(place) for place in self._absent if _exists(place)]
        for place, target in self._links.items():
            if _read_link(place) != target:
                if _exists(place):
                    found.append(self._handle_intruder(place))
                with suppress(OSError):
                    os.symlink(target, place.name, dir_fd=place.folder)
                if _read_link(place) != target:
                    found.append(f"{place.path} (it no longer leads to {target})")
        self._absent, self._links = [], {}
        for fd in self._folders.values():
            os.close(fd)
        self._folders.clear()
        return tuple(found)

    def _handle_intruder(self, place: _NameInFolder) -> str:
        if self._is_brokered:
            return f"{place.path} (left as it is: no sandboxed command can have made it)"
        with suppress(OSError):
            return f"{place.path} (moved to {_move_aside(place)})"
        return f"{place.path} (it could not be moved away: look at it, and remove it)"


def remove_placeholder(path: str) -> None:
    """After a crash: remove a placeholder that no process holds."""
    above, _, name = path.rpartition("/")
    with suppress(OSError):
        folder = open_canonical(above or "/", PATH_FLAGS)
        try:
            place = _NameInFolder(folder, name, path)
            _release_placeholder(place, _open_folder(place))
        finally:
            os.close(folder)


def _read_link(place: _NameInFolder) -> str | None:
    try:
        return os.readlink(place.name, dir_fd=place.folder)
    except OSError:
        return None


def _exists(place: _NameInFolder, name: str = "") -> bool:
    try:
        os.stat(name or place.name, dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _try_lock_placeholder(place: _NameInFolder) -> int | None:
    """Lock or make a placeholder; None if no command can create the name.

    We cannot make a folder in another user's folder that is closed to us, and neither can a
    command. Our own closed folder a command could open again, so there a refusal does not count.
    """
    is_ours = os.fstat(place.folder).st_uid == os.geteuid()
    for _ in range(_MOST_TRIES):  # another guard may just be closing the folder again
        try:
            with _writable_folder(place.folder):
                return _lock_placeholder(place)
        except PermissionError as error:
            if error.errno != errno.EACCES or not is_ours:
                return None
    raise PermissionError(errno.EACCES, "no placeholder can be made", place.path)


def _lock_placeholder(place: _NameInFolder) -> int:
    """A shared lock on the placeholder, which is made if it is missing."""
    for _ in range(_MOST_TRIES):
        is_made = _make_folder(place)
        try:
            lock = _open_folder(place)
        except FileNotFoundError:
            continue  # its last user has just removed it
        if is_made:
            os.utime(lock, ns=(PLACEHOLDER_MTIME_NS, PLACEHOLDER_MTIME_NS))
        fcntl.flock(lock, fcntl.LOCK_SH)
        if _stands(place, lock):
            return lock
        os.close(lock)
    raise OSError(f"cannot hold a placeholder at {place.path}")


def _open_folder(place: _NameInFolder) -> int:
    try:
        return os.open(place.name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=place.folder)
    except OSError as error:
        error.filename = place.path
        raise


def _make_folder(place: _NameInFolder) -> bool:
    """False if something is there."""
    try:
        os.mkdir(place.name, 0o755, dir_fd=place.folder)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno == errno.EROFS:
            raise PermissionError(error.errno, "read-only file system", place.path) from error
        raise
    return True


def _release_placeholder(place: _NameInFolder, lock: int) -> None:
    """Close the lock; remove the placeholder if it still is one and no other process holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while another process uses it
        if _stands(place, lock) and _is_untouched(lock):
            with _writable_folder(place.folder):
                os.rmdir(place.name, dir_fd=place.folder)
    except OSError:
        pass  # it stays; the next command's guard finds it
    finally:
        os.close(lock)


def _stands(place: _NameInFolder, lock: int) -> bool:
    """True while the name leads to the held folder."""
    try:
        there = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(lock))


def _is_untouched(lock: int) -> bool:
    with os.scandir(lock) as entries:
        return os.fstat(lock).st_mtime_ns == PLACEHOLDER_MTIME_NS and not any(entries)


def _move_aside(place: _NameInFolder) -> str:
    """Rename it and return its new path. Raises OSError."""
    aside = f"{place.name}.moved-aside-{secrets.token_hex(8)}"
    with _writable_folder(place.folder):
        os.rename(place.name, aside, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    return f"{place.path.rpartition('/')[0]}/{aside}"


@contextmanager
def _writable_folder(folder: int) -> Iterator[None]:
    """Make a folder of this user writable meanwhile, if its mode forbids that."""
    found, way = os.fstat(folder), Path(f"/proc/self/fd/{folder}")
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid() or mode & 0o300 == 0o300:
        yield
        return
    with suppress(OSError):  # a read-only file system
        way.chmod(mode | 0o300)
    try:
        yield
    finally:
        with suppress(OSError):
            way.chmod(mode)
