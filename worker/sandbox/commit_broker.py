"""Writes to a repository's git folder for a command that may commit: by name, one call at a time.

For the command the folder is read-only, by a mount or by Landlock. The broker does what the grant
opens, in the launcher's own view of the file system, after it has checked that the caller means the
same folder.

It does so for git alone, and for anybody the texts of a message (hooks write those): what a command
that may commit does besides, a redirect of its shell or a hook, writes nothing there.

It makes only plain files and folders, never a link. It never renames a folder, so no folder can
become another. No rename or link moves anything between the git folder and the rest of the tree.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Protocol

from swarm.mailbox.base.path_rules import is_within

from .file_policy import FilePolicy, path_access
from .path_resolution import (
    NotResolved,
    ResolvedEntry,
    open_entry_as_caller,
    open_without_links,
    rename_entry,
)
from .syscall_dispatcher import (
    AT_FDCWD,
    ContinueSyscall,
    FailSyscall,
    PendingSyscall,
    ReturnDescriptor,
    ReturnValue,
    SyscallAnswer,
    SyscallHandler,
    caller_umask,
    check_caller_alive,
    continue_if_unresolved,
    read_path_argument,
)

_NO_REPLACE = 1
_ANYBODYS = ("/dev", "/proc", "/tmp", "/var/tmp")  # commands make programs there
_MESSAGES = frozenset({"COMMIT_EDITMSG", "MERGE_MSG", "SQUASH_MSG", "TAG_EDITMSG"})


class _Remove(Protocol):
    """`os.unlink` or `os.rmdir`."""

    def __call__(self, path: bytes, /, *, dir_fd: int) -> None: ...


class CommitBroker:
    """The system call handlers for a policy's repositories; other paths are left to the kernel."""

    def __init__(self, policy: FilePolicy) -> None:
        self._policy = policy

    def close(self) -> None:
        """Nothing to remove."""

    def handlers(self) -> Mapping[str, SyscallHandler]:
        """Handlers by call name. Other calls continue: for the kernel the folder is read-only."""
        found: dict[str, Callable[[PendingSyscall], SyscallAnswer]] = {
            "mkdir": lambda c: self._mkdir(c, AT_FDCWD, 0, c.args[1]),
            "mkdirat": lambda c: self._mkdir(c, c.args[0], 1, c.args[2]),
            "unlink": lambda c: self._remove(c, AT_FDCWD, 0, os.unlink),
            "unlinkat": lambda c: self._remove(
                c, c.args[0], 1, os.rmdir if c.args[2] & 0x200 else os.unlink
            ),
            "rmdir": lambda c: self._remove(c, AT_FDCWD, 0, os.rmdir),
            "rename": lambda c: self._rename(c, (AT_FDCWD, 0), (AT_FDCWD, 1), 0),
            "renameat": lambda c: self._rename(c, (c.args[0], 1), (c.args[2], 3), 0),
            "renameat2": lambda c: self._rename(
                c, (c.args[0], 1), (c.args[2], 3), c.args[4] & 0xFFFFFFFF
            ),
            "link": lambda c: self._link(c, (AT_FDCWD, 0), (AT_FDCWD, 1), 0),
            "linkat": lambda c: self._link(c, (c.args[0], 1), (c.args[2], 3), c.args[4]),
            "open": lambda c: self._open(c, AT_FDCWD, 0, c.args[1], c.args[2]),
            "openat": lambda c: self._open(c, c.args[0], 1, c.args[2], c.args[3]),
            "creat": lambda c: self._open(
                c, AT_FDCWD, 0, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, c.args[1]
            ),
        }
        return {name: continue_if_unresolved(handler) for name, handler in found.items()}

    @contextmanager
    def _open_entry(self, call: PendingSyscall, at: int, index: int) -> Iterator[ResolvedEntry]:
        """Open the entry in the launcher's view. Raises NotResolved if this broker may not."""
        path = read_path_argument(call, index)
        with open_entry_as_caller(call.pid, at, path) as seen:
            check_caller_alive(call)
            if path_access(self._policy, seen.path) != "commit":
                raise NotResolved
            if not self._is_message(seen.path) and not self._is_git(call.pid):
                raise NotResolved
            check_caller_alive(call)
            with open_without_links(os.path.dirname(seen.path)) as folder:  # noqa: PTH120
                if not os.path.samestat(os.fstat(folder), os.fstat(seen.folder)):
                    raise NotResolved
                yield seen._replace(folder=folder)

    def _is_message(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name in _MESSAGES and folder in self._policy.repositories

    def _is_git(self, pid: int) -> bool:
        """Whether the caller runs a git that no command could have made. Raises OSError."""
        link = f"/proc/{pid}/exe"
        program = os.readlink(link)  # noqa: PTH115
        name = program.rpartition("/")[2]
        if name != "git" and not name.startswith("git-"):
            return False
        if any(is_within(program, tree) for tree in (*self._policy.roots, *_ANYBODYS)):
            return False
        # The path is the caller's: in a private folder of its own another file lies there, or none.
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(link), os.stat(program))  # noqa: PTH116
        return False

    def _mkdir(self, call: PendingSyscall, at: int, index: int, mode: int) -> SyscallAnswer:
        with self._open_entry(call, at, index) as place:
            os.umask(caller_umask(call))
            os.mkdir(place.name, mode & 0o777, dir_fd=place.folder)
            return ReturnValue()

    def _remove(self, call: PendingSyscall, at: int, index: int, remove: _Remove) -> SyscallAnswer:
        with self._open_entry(call, at, index) as place:
            remove(place.name, dir_fd=place.folder)
            return ReturnValue()

    def _rename(
        self, call: PendingSyscall, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> SyscallAnswer:
        with self._open_entry(call, *old) as source, self._open_entry(call, *new) as target:
            if flags & ~_NO_REPLACE or not _is_regular_file(source):
                return FailSyscall(errno.EACCES)
            rename_entry(source, target, flags)
            return ReturnValue()

    def _link(
        self, call: PendingSyscall, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> SyscallAnswer:
        with self._open_entry(call, *old) as source, self._open_entry(call, *new) as target:
            if flags or not _is_regular_file(source):
                return FailSyscall(errno.EACCES)
            os.link(
                source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder,
                follow_symlinks=False,
            )  # fmt: skip
            return ReturnValue()

    def _open(
        self, call: PendingSyscall, at: int, index: int, flags: int, mode: int
    ) -> SyscallAnswer:
        flags &= 0xFFFFFFFF
        if flags & os.O_TMPFILE == os.O_TMPFILE or flags & os.O_PATH:
            return ContinueSyscall()
        with self._open_entry(call, at, index) as place:
            with suppress(FileNotFoundError):
                if not _is_regular_file(place):
                    return FailSyscall(errno.EACCES)
            os.umask(caller_umask(call))
            wanted = flags | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
            fd = os.open(place.name, wanted, mode & 0o777, dir_fd=place.folder)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                return FailSyscall(errno.EACCES)
            os.set_blocking(fd, not flags & os.O_NONBLOCK)
            return ReturnDescriptor(fd, bool(flags & os.O_CLOEXEC))


def _is_regular_file(place: ResolvedEntry) -> bool:
    """True for a file that is neither folder nor link nor device. Raises OSError."""
    if place.is_folder:
        return False
    found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    return stat.S_ISREG(found.st_mode)
