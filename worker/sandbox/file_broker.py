"""Makes the file changes of a command that Landlock's rules cannot express.

Landlock cannot express "everything in these folders, except these names". So a call that would
change something at a path waits (`syscall_dispatcher.py`). Where the path is open, the broker makes
the change itself, on descriptors, with the caller's umask and user. Any other call continues in the
kernel, whose Landlock rules for the command are narrower than the broker's.

The broker reads memory once. *Continue* never grants anything: the command's own rules allow
nothing that is closed, and no folder in which a protected name could be created. The broker runs
under its own Landlock rules, which end at the writable roots, so a bug here stays inside them.
"""

import contextlib
import errno
import os
import select
import stat
from collections.abc import Callable, Iterator, Mapping

from swarm.mailbox.base.path_rules import is_within

from .file_policy import FilePolicy, PathAccess, is_immovable, path_access
from .path_resolution import (
    NotResolved,
    ResolvedEntry,
    open_base,
    open_entry,
    open_folder,
    path_of_fd,
    rename_entry,
)
from .shared_memory import SharedMemoryNames
from .syscall_dispatcher import (
    AT_FDCWD,
    ContinueSyscall,
    DeferredAnswer,
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
from .terminals import Terminals

_MOST_LINKS = 40
# The object is held: it is neither made nor a link.
_CREATION_FLAGS = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_ALLOWED_NODE_TYPES = {0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK}  # by mknod; devices never
_FOLLOW, _BY_DESCRIPTOR = 0x400, 0x1000  # of linkat
_POLL_INTERVAL_MS = 20  # how often to check that a caller waiting for a pipe's other end lives


class FileBroker:
    """The system call handlers of one policy.

    One thread at a time uses them, with its own umask and working folder. Call `close` when no
    process is left that could call.
    """

    def __init__(self, policy: FilePolicy) -> None:
        self._policy = policy
        self._shared_memory = SharedMemoryNames()
        self._terminals = Terminals()

    def close(self) -> None:
        """Remove what the command left behind and no other program can use."""
        self._shared_memory.close()
        self._terminals.close()

    def handlers(self) -> Mapping[str, SyscallHandler]:
        """Handlers by call name: where each call has its arguments, and what is done."""
        plain: dict[str, Callable[[PendingSyscall], SyscallAnswer]] = {
            "mkdir": lambda c: self._create(c, AT_FDCWD, 0, _folder_maker(c.args[1])),
            "mkdirat": lambda c: self._create(c, c.args[0], 1, _folder_maker(c.args[2])),
            "mknod": lambda c: self._create(c, AT_FDCWD, 0, _node_maker(c.args[1])),
            "mknodat": lambda c: self._create(c, c.args[0], 1, _node_maker(c.args[2])),
            "symlink": lambda c: self._create(
                c, AT_FDCWD, 1, _link_maker(read_path_argument(c, 0))
            ),
            "symlinkat": lambda c: self._create(
                c, c.args[1], 2, _link_maker(read_path_argument(c, 0))
            ),
            "unlink": lambda c: self._remove(c, AT_FDCWD, 0, is_folder=False),
            "unlinkat": lambda c: self._remove(c, c.args[0], 1, is_folder=bool(c.args[2] & 0x200)),
            "rmdir": lambda c: self._remove(c, AT_FDCWD, 0, is_folder=True),
            "rename": lambda c: self._rename(c, (AT_FDCWD, 0), (AT_FDCWD, 1), 0),
            "renameat": lambda c: self._rename(c, (c.args[0], 1), (c.args[2], 3), 0),
            "renameat2": lambda c: self._rename(
                c, (c.args[0], 1), (c.args[2], 3), c.args[4] & 0xFFFFFFFF
            ),
            "link": lambda c: self._link(c, (AT_FDCWD, 0), (AT_FDCWD, 1), 0),
            "linkat": lambda c: self._link(c, (c.args[0], 1), (c.args[2], 3), c.args[4]),
            "open": lambda c: self._open(c, (AT_FDCWD, 0), c.args[1], c.args[2]),
            "openat": lambda c: self._open(c, (c.args[0], 1), c.args[2], c.args[3]),
            "creat": lambda c: self._open(
                c, (AT_FDCWD, 0), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, c.args[1]
            ),
            "truncate": self._truncate,
            "bind": self._bind,
            "ioctl": self._open_peer,
        }
        return {name: continue_if_unresolved(handler) for name, handler in plain.items()}

    def _judge(self, place: ResolvedEntry) -> PathAccess:
        return path_access(self._policy, place.path)

    def _create(
        self, call: PendingSyscall, at: int, index: int, make: Callable[[ResolvedEntry], None]
    ) -> SyscallAnswer:
        with _open_entry_of_call(call, at, index) as place:
            if self._judge(place) != "open":
                return ContinueSyscall()
            os.umask(caller_umask(call))
            make(place)
            return ReturnValue()

    def _remove(
        self, call: PendingSyscall, at: int, index: int, *, is_folder: bool
    ) -> SyscallAnswer:
        with _open_entry_of_call(call, at, index) as place:
            if self._shared_memory.contains(place):
                self._shared_memory.unlink(place)
                return ReturnValue()
            if self._judge(place) != "open":
                return ContinueSyscall()
            if is_immovable(self._policy, place.path):
                return FailSyscall(errno.EACCES)
            remove = os.rmdir if is_folder else os.unlink
            remove(place.name, dir_fd=place.folder)
            return ReturnValue()

    def _rename(
        self, call: PendingSyscall, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> SyscallAnswer:
        with _open_entry_of_call(call, *old) as source, _open_entry_of_call(call, *new) as target:
            judged = {self._judge(source), self._judge(target)}
            if judged == {"open", "outside"}:
                return FailSyscall(errno.EXDEV)  # programs then copy, if they may
            if judged != {"open"}:
                return ContinueSyscall()
            if any(is_immovable(self._policy, one.path) for one in (source, target)):
                return FailSyscall(errno.EACCES)
            rename_entry(source, target, flags)
            return ReturnValue()

    def _link(
        self, call: PendingSyscall, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> SyscallAnswer:
        if flags & (_FOLLOW | _BY_DESCRIPTOR):
            return ContinueSyscall()
        with _open_entry_of_call(call, *old) as source, _open_entry_of_call(call, *new) as target:
            if self._shared_memory.contains(source) and self._shared_memory.contains(target):
                self._shared_memory.link(source, target)
                return ReturnValue()
            judged = (self._judge(source), self._judge(target))
            if judged == ("outside", "open"):
                return FailSyscall(errno.EXDEV)
            if judged != ("open", "open"):
                return ContinueSyscall()
            os.link(
                source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder,
                follow_symlinks=False,
            )  # fmt: skip
            return ReturnValue()

    def _open(
        self, call: PendingSyscall, at: tuple[int, int], flags: int, mode: int
    ) -> SyscallAnswer:
        flags &= 0xFFFFFFFF
        if flags & os.O_PATH:
            return ContinueSyscall()
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            return self._open_tmpfile(call, at, flags, mode)
        path = read_path_argument(call, at[1])
        with contextlib.ExitStack() as held:
            base = held.enter_context(open_base(call.pid, at[0], path))
            check_caller_alive(call)
            for _ in range(_MOST_LINKS):
                place = held.enter_context(open_entry(base, path))
                if self._shared_memory.contains(place):
                    os.umask(caller_umask(call))
                    fd = self._shared_memory.open_object(place, flags, mode)
                    return ReturnDescriptor(fd, bool(flags & os.O_CLOEXEC))
                if (terminal := self._terminals.open_named(place, call.pid, flags)) is not None:
                    return ReturnDescriptor(terminal, bool(flags & os.O_CLOEXEC))
                if self._judge(place) != "open" or place.is_folder:
                    return ContinueSyscall()
                answer = self._open_at(call, place, flags, mode)
                if not isinstance(answer, bytes):
                    return answer
                base, path = place.folder, answer
        return FailSyscall(errno.ELOOP)

    def _open_at(
        self, call: PendingSyscall, place: ResolvedEntry, flags: int, mode: int
    ) -> SyscallAnswer | bytes:
        """Open the object, or return the target if it is a link."""
        if not flags & os.O_EXCL or not flags & os.O_CREAT:
            try:
                fd = os.open(
                    place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder
                )
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
            else:
                with _closing(fd):
                    return self._open_object(call, fd, flags)
        os.umask(caller_umask(call))
        fd = os.open(
            place.name, flags | os.O_NOFOLLOW | os.O_NOCTTY, mode & 0o7777, dir_fd=place.folder
        )
        return ReturnDescriptor(fd, bool(flags & os.O_CLOEXEC))

    def _open_object(self, call: PendingSyscall, fd: int, flags: int) -> SyscallAnswer | bytes:
        """A descriptor for the caller of what is already held open, judged by its present path."""
        kind = os.fstat(fd).st_mode
        if stat.S_ISLNK(kind):
            if flags & os.O_NOFOLLOW:
                return FailSyscall(errno.ELOOP)
            return os.readlink(b"", dir_fd=fd)
        if path_access(self._policy, path_of_fd(fd)) != "open":
            return ContinueSyscall()
        if stat.S_ISDIR(kind) and flags & os.O_CREAT:
            return FailSyscall(errno.EISDIR)
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            return ContinueSyscall()
        wanted = flags & ~_CREATION_FLAGS | os.O_NOCTTY
        if stat.S_ISFIFO(kind) and not flags & (os.O_NONBLOCK | os.O_RDWR):
            return _open_fifo(call, os.dup(fd), wanted)
        opened = os.open(f"/proc/self/fd/{fd}", wanted)
        return ReturnDescriptor(opened, bool(flags & os.O_CLOEXEC))

    def _open_tmpfile(
        self, call: PendingSyscall, at: tuple[int, int], flags: int, mode: int
    ) -> SyscallAnswer:
        path = read_path_argument(call, at[1])
        with open_base(call.pid, at[0], path) as base, open_folder(base, path) as folder:
            check_caller_alive(call)
            if path_access(self._policy, f"{path_of_fd(folder)}/file") != "open":
                return ContinueSyscall()
            os.umask(caller_umask(call))
            fd = os.open(f"/proc/self/fd/{folder}", flags & ~os.O_NOFOLLOW, mode & 0o7777)
            return ReturnDescriptor(fd, bool(flags & os.O_CLOEXEC))

    def _open_peer(self, call: PendingSyscall) -> SyscallAnswer:
        flags = call.args[2] & 0xFFFFFFFF
        with _closing(_taken(call)) as master:
            peer = self._terminals.open_peer(master, flags)
        return (
            ContinueSyscall()
            if peer is None
            else ReturnDescriptor(peer, bool(flags & os.O_CLOEXEC))
        )

    def _truncate(self, call: PendingSyscall) -> SyscallAnswer:
        length = call.args[1]
        if length >= 1 << 63:
            return FailSyscall(errno.EINVAL)
        answer = self._open(call, (AT_FDCWD, 0), os.O_WRONLY | os.O_NONBLOCK, 0)
        if isinstance(answer, ReturnDescriptor):
            with _closing(answer.fd):
                os.ftruncate(answer.fd, length)
            return ReturnValue()
        return answer

    def _bind(self, call: PendingSyscall) -> SyscallAnswer:
        size = min(call.args[2], 128)
        try:
            address = call.read_memory(call.args[1], size)
        except OSError as error:
            raise NotResolved from error
        path = address[2:].partition(b"\0")[0]
        if len(address) < size or address[:2] != b"\x01\0" or not path:
            return ContinueSyscall()  # of another family, or without a path
        with open_base(call.pid, AT_FDCWD, path) as base, open_entry(base, path) as place:
            check_caller_alive(call)
            is_whole = any(is_within(place.path, tree) for tree in self._policy.whole)
            if self._judge(place) != "open" or is_whole:
                # The kernel binds it, so the socket keeps the name that was asked for.
                return ContinueSyscall()
            return bind_socket(place, _taken(call), caller_umask(call))


def bind_socket(place: ResolvedEntry, fd: int, umask: int) -> SyscallAnswer:
    """Bind the socket to its name, and close `fd`."""
    import socket  # imported here: few commands bind sockets, and the import is slow

    with socket.socket(fileno=fd) as taken:
        if taken.family != socket.AF_UNIX:
            return FailSyscall(errno.EINVAL)
        os.umask(umask)
        os.fchdir(place.folder)  # the thread's own
        try:
            taken.bind(place.name)
        finally:
            os.chdir("/")
    return ReturnValue()


def _taken(call: PendingSyscall) -> int:
    """A copy of the descriptor in the call's first argument. Raises NotResolved, OSError."""
    try:
        return call.take_descriptor(call.args[0] & 0x7FFFFFFF)
    except PermissionError as error:
        raise NotResolved from error


@contextlib.contextmanager
def _open_entry_of_call(call: PendingSyscall, at: int, index: int) -> Iterator[ResolvedEntry]:
    """The entry at a path argument. Raises NotResolved; OSError if the caller has gone."""
    path = read_path_argument(call, index)
    with open_base(call.pid, at, path) as base, open_entry(base, path) as place:
        check_caller_alive(call)
        yield place


def _folder_maker(mode: int) -> Callable[[ResolvedEntry], None]:
    return lambda place: os.mkdir(place.name, mode & 0o1777, dir_fd=place.folder)


def _node_maker(mode: int) -> Callable[[ResolvedEntry], None]:
    mode &= 0xFFFFFFFF

    def make(place: ResolvedEntry) -> None:
        if stat.S_IFMT(mode) not in _ALLOWED_NODE_TYPES:
            raise PermissionError(errno.EPERM, "no devices are made")
        os.mknod(place.name, mode, dir_fd=place.folder)

    return make


def _link_maker(target: bytes) -> Callable[[ResolvedEntry], None]:
    return lambda place: os.symlink(target, place.name, dir_fd=place.folder)


def _open_fifo(call: PendingSyscall, fd: int, flags: int) -> SyscallAnswer:
    """Open a pipe for writing as soon as it has a reader; stop when the caller goes.

    Opening for reading is left to the kernel.
    """

    def wait() -> SyscallAnswer:
        with _closing(fd):
            while call.is_valid():
                with contextlib.suppress(OSError):
                    opened = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK)
                    os.set_blocking(opened, True)
                    return ReturnDescriptor(opened, bool(flags & os.O_CLOEXEC))
                select.poll().poll(_POLL_INTERVAL_MS)
        return FailSyscall(errno.EINTR)

    return DeferredAnswer(wait) if flags & os.O_WRONLY else _close_and_continue(fd)


def _close_and_continue(fd: int) -> SyscallAnswer:
    os.close(fd)
    return ContinueSyscall()


@contextlib.contextmanager
def _closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)
