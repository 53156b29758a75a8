"""Writes in a repository's own folder for a command that may commit: by name, one after the other.

For the command the folder is read-only, by a mount or by Landlock. What the grant opens is done
here, in the launcher's own view of the files, after the folder that the caller means was found to
be the same one.

Guards: only plain files and folders are made, never a link; a folder is never renamed, so that none
becomes another; nothing comes in from, or goes out to, the rest of the tree by rename or link.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from .notifier import Answer, Done, GoOn, Handler, Opened, Refused, WaitingCall
from .places import FilePolicy, judge_place
from .renaming import move_entry
from .resolve import NotResolved, Place, in_view, open_unlinked
from .words import HERE, check_alive, or_go_on, umask_of, words_of

_NO_REPLACE = 1


class CommitBroker:
    """The handlers of a policy's repositories. What lies elsewhere goes on to the kernel."""

    def __init__(self, policy: FilePolicy) -> None:
        self._policy = policy

    def close(self) -> None:
        """There is nothing to be removed."""

    def handlers(self) -> Mapping[str, Handler]:
        """By call name. What is not here goes on: the folder is read-only to the kernel."""
        found: dict[str, Callable[[WaitingCall], Answer]] = {
            "mkdir": lambda c: self._mkdir(c, HERE, 0, c.args[1]),
            "mkdirat": lambda c: self._mkdir(c, c.args[0], 1, c.args[2]),
            "unlink": lambda c: self._remove(c, HERE, 0, os.unlink),
            "unlinkat": lambda c: self._remove(
                c, c.args[0], 1, os.rmdir if c.args[2] & 0x200 else os.unlink
            ),
            "rmdir": lambda c: self._remove(c, HERE, 0, os.rmdir),
            "rename": lambda c: self._rename(c, (HERE, 0), (HERE, 1), 0),
            "renameat": lambda c: self._rename(c, (c.args[0], 1), (c.args[2], 3), 0),
            "renameat2": lambda c: self._rename(
                c, (c.args[0], 1), (c.args[2], 3), c.args[4] & 0xFFFFFFFF
            ),
            "link": lambda c: self._link(c, (HERE, 0), (HERE, 1), 0),
            "linkat": lambda c: self._link(c, (c.args[0], 1), (c.args[2], 3), c.args[4]),
            "open": lambda c: self._open(c, HERE, 0, c.args[1], c.args[2]),
            "openat": lambda c: self._open(c, c.args[0], 1, c.args[2], c.args[3]),
            "creat": lambda c: self._open(
                c, HERE, 0, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, c.args[1]
            ),
        }
        return {name: or_go_on(handler) for name, handler in found.items()}

    @contextmanager
    def _place(self, call: WaitingCall, at: int, index: int) -> Iterator[Place]:
        """In our view. Raises NotResolved: it is not for this broker, or closed."""
        path = words_of(call, index)
        with in_view(call.pid, at, path) as seen:
            check_alive(call)
            if judge_place(self._policy, seen.path) != "commit":
                raise NotResolved
            with open_unlinked(os.path.dirname(seen.path)) as folder:  # noqa: PTH120
                if not os.path.samestat(os.fstat(folder), os.fstat(seen.folder)):
                    raise NotResolved
                yield seen._replace(folder=folder)

    def _mkdir(self, call: WaitingCall, at: int, index: int, mode: int) -> Answer:
        with self._place(call, at, index) as place:
            os.umask(umask_of(call))
            os.mkdir(place.name, mode & 0o777, dir_fd=place.folder)
            return Done()

    def _remove(
        self, call: WaitingCall, at: int, index: int, remove: Callable[..., None]
    ) -> Answer:
        with self._place(call, at, index) as place:
            remove(place.name, dir_fd=place.folder)
            return Done()

    def _rename(
        self, call: WaitingCall, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> Answer:
        with self._place(call, *old) as source, self._place(call, *new) as target:
            if flags & ~_NO_REPLACE or not _is_plain(source):
                return Refused(errno.EACCES)
            move_entry(source, target, flags)
            return Done()

    def _link(
        self, call: WaitingCall, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> Answer:
        with self._place(call, *old) as source, self._place(call, *new) as target:
            if flags or not _is_plain(source):
                return Refused(errno.EACCES)
            os.link(
                source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder,
                follow_symlinks=False,
            )  # fmt: skip
            return Done()

    def _open(self, call: WaitingCall, at: int, index: int, flags: int, mode: int) -> Answer:
        flags &= 0xFFFFFFFF
        if flags & os.O_TMPFILE == os.O_TMPFILE or flags & os.O_PATH:
            return GoOn()
        with self._place(call, at, index) as place:
            with suppress(FileNotFoundError):
                if not _is_plain(place):
                    return Refused(errno.EACCES)
            os.umask(umask_of(call))
            wanted = flags | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
            fd = os.open(place.name, wanted, mode & 0o777, dir_fd=place.folder)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                return Refused(errno.EACCES)
            os.set_blocking(fd, not flags & os.O_NONBLOCK)
            return Opened(fd, bool(flags & os.O_CLOEXEC))


def _is_plain(place: Place) -> bool:
    """True for a file that is neither folder nor link nor device. Raises OSError."""
    if place.is_folder:
        return False
    found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    return stat.S_ISREG(found.st_mode)
