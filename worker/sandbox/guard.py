"""Protected names that do not exist, or are links, while commands run.

A missing name is guarded by a placeholder: an empty folder that bwrap binds read-only over itself.
It carries a telltale time of change and a shared lock per user of it; the last one removes it, so
the person's folder is as before. After a crash the next run recognises and removes it. Where there
are no mounts (Landlock), and for links, which cannot be mounted on, what came to be at the name
during the command is renamed to `NAME.moved-aside-N` and the link is put back: it is never used.
"""

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.path_rules import PLACEHOLDER_MTIME_NS

from .footing import is_same
from .plan import SandboxPlan, is_placeholder

_MOST_TRIES = 16
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Place(NamedTuple):
    """A name in a folder that is held open."""

    folder: int
    name: str
    path: str  # as it was, for people


class Guard:
    """Held while a command lives; `close` gives the folder back as it was."""

    def __init__(self, plan: SandboxPlan) -> None:
        """Make placeholders and remember links. Raises OSError if one cannot be made."""
        self._locks: dict[str, int] = {}
        self._folders: dict[str, int] = {}  # held open: a command may put links in their place
        absent = plan.unwanted + (plan.missing if plan.stack == "landlock" else ())
        self._absent = self._places(absent)
        self._links = {
            place: target
            for place in self._places(plan.links)
            if (target := _link(place)) is not None
        }
        if plan.stack != "bwrap":
            return
        try:
            for path in plan.missing:
                # What we may not make, a command of ours may not make either.
                with suppress(PermissionError):
                    self._locks[path] = _hold(path)
        except OSError:
            self.close()
            raise

    def _places(self, paths: tuple[str, ...]) -> list[_Place]:
        """Where each of them is, whatever its folder will be called."""
        found: list[_Place] = []
        for path in paths:
            folder, _, name = path.rpartition("/")
            if folder not in self._folders:
                try:
                    self._folders[folder] = os.open(folder or "/", _FOLDER)
                except OSError:
                    continue  # gone, or no folder any more: nothing is there
            found.append(_Place(self._folders[folder], name, path))
        return found

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The missing names that exist now, for as long as this is held."""
        return tuple(self._locks)

    def holds(self) -> bool:
        """True while every placeholder is the one that was made or found."""
        return all(is_same(path, lock) for path, lock in self._locks.items())

    def close(self) -> tuple[str, ...]:
        """Remove the placeholders nobody else needs; return what had to be moved aside."""
        for path, lock in self._locks.items():
            _let_go(path, lock)
        self._locks.clear()
        moved = [_move_aside(place) for place in self._absent if _exists(place)]
        for place, target in self._links.items():
            if _link(place) != target:
                if _exists(place):
                    moved.append(_move_aside(place))
                with suppress(OSError):
                    os.symlink(target, place.name, dir_fd=place.folder)
        self._absent, self._links = [], {}
        for fd in self._folders.values():
            os.close(fd)
        self._folders.clear()
        return tuple(name for name in moved if name)


def remove_placeholder(path: str) -> None:
    """After a crash: remove it if it is one and nobody holds it."""
    if not is_placeholder(path):
        return
    with suppress(OSError):
        _let_go(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))


def _link(place: _Place) -> str | None:
    try:
        return os.readlink(place.name, dir_fd=place.folder)
    except OSError:
        return None


def _exists(place: _Place, name: str = "") -> bool:
    try:
        os.stat(name or place.name, dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _hold(path: str) -> int:
    """A shared lock on the placeholder at `path`, made if need be."""
    for _ in range(_MOST_TRIES):
        with suppress(FileExistsError):
            _make_folder(path)
            os.utime(path, ns=(PLACEHOLDER_MTIME_NS, PLACEHOLDER_MTIME_NS))
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # removed by its last user just now
        fcntl.flock(lock, fcntl.LOCK_SH)
        if is_same(path, lock):
            return lock
        os.close(lock)
    raise OSError(f"cannot hold a placeholder at {path}")


def _make_folder(path: str) -> None:
    try:
        Path(path).mkdir(mode=0o755)
    except OSError as error:
        if error.errno == errno.EROFS:
            raise PermissionError(error.errno, "read-only file system", path) from error
        raise


def _let_go(path: str, lock: int) -> None:
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while another uses it
        if is_same(path, lock) and is_placeholder(path):
            Path(path).rmdir()
    os.close(lock)


def _move_aside(place: _Place) -> str:
    for number in range(1, 1000):
        aside = f"{place.name}.moved-aside-{number}"
        if not _exists(place, aside):
            with suppress(OSError):
                os.rename(place.name, aside, src_dir_fd=place.folder, dst_dir_fd=place.folder)
                return f"{place.path}.moved-aside-{number}"
            break
    return ""
