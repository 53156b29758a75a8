"""Does for a command what Landlock cannot express: everything in these folders, except these names.

A call that would change something at a path waits (`notifier.py`). Where the place is open the
broker does it itself, on descriptors, with the caller's umask and the caller's own user. Anything
else goes on to the kernel, whose Landlock rules for the command are narrower than the broker's.

Guards: memory is read once. *Go on* is never a permission: the command's own rules grant nothing
that is closed, and no folder in which a protected name could come to be. What the broker does it
does under rules of its own that end at the writable roots, so that a fault here stays inside.
"""

import contextlib
import errno
import os
import select
import stat
from collections.abc import Callable, Iterator, Mapping

from swarm.mailbox.path_rules import is_within

from .notifier import Answer, Done, GoOn, Handler, Opened, Refused, Slowly, WaitingCall
from .places import FilePolicy, Verdict, is_pinned, judge_place
from .renaming import move_entry
from .resolve import NotResolved, Place, open_base, open_folder, open_place, place_of
from .shared_names import SharedNames
from .terminals import Terminals
from .words import HERE, check_alive, or_go_on, umask_of, words_of

_MOST_LINKS = 40
_NOT_AGAIN = (
    os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
)  # the object is held: it is neither made nor a link
_MADE = {0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK}  # by mknod; devices never
_FOLLOW, _BY_DESCRIPTOR = 0x400, 0x1000  # of linkat
_LOOK_AGAIN_MS = 20  # whether whoever waits for a pipe's other end is still there


class FileBroker:
    """The handlers of one policy. One thread at a time uses them, with a umask and a working folder
    of its own; `close` when nobody is left who could call.
    """

    def __init__(self, policy: FilePolicy) -> None:
        self._policy = policy
        self._shared = SharedNames()
        self._terminals = Terminals()

    def close(self) -> None:
        """Remove what the command left that nobody else can use."""
        self._shared.close()
        self._terminals.close()

    def handlers(self) -> Mapping[str, Handler]:
        """By call name: where each call has its words, and what is done."""
        plain: dict[str, Callable[[WaitingCall], Answer]] = {
            "mkdir": lambda c: self._make(c, HERE, 0, _folder_maker(c.args[1])),
            "mkdirat": lambda c: self._make(c, c.args[0], 1, _folder_maker(c.args[2])),
            "mknod": lambda c: self._make(c, HERE, 0, _node_maker(c.args[1])),
            "mknodat": lambda c: self._make(c, c.args[0], 1, _node_maker(c.args[2])),
            "symlink": lambda c: self._make(c, HERE, 1, _link_maker(words_of(c, 0))),
            "symlinkat": lambda c: self._make(c, c.args[1], 2, _link_maker(words_of(c, 0))),
            "unlink": lambda c: self._remove(c, HERE, 0, is_folder=False),
            "unlinkat": lambda c: self._remove(c, c.args[0], 1, is_folder=bool(c.args[2] & 0x200)),
            "rmdir": lambda c: self._remove(c, HERE, 0, is_folder=True),
            "rename": lambda c: self._rename(c, (HERE, 0), (HERE, 1), 0),
            "renameat": lambda c: self._rename(c, (c.args[0], 1), (c.args[2], 3), 0),
            "renameat2": lambda c: self._rename(
                c, (c.args[0], 1), (c.args[2], 3), c.args[4] & 0xFFFFFFFF
            ),
            "link": lambda c: self._link(c, (HERE, 0), (HERE, 1), 0),
            "linkat": lambda c: self._link(c, (c.args[0], 1), (c.args[2], 3), c.args[4]),
            "open": lambda c: self._open(c, (HERE, 0), c.args[1], c.args[2]),
            "openat": lambda c: self._open(c, (c.args[0], 1), c.args[2], c.args[3]),
            "creat": lambda c: self._open(
                c, (HERE, 0), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, c.args[1]
            ),
            "truncate": self._truncate,
            "bind": self._bind,
            "ioctl": self._open_peer,
        }
        return {name: or_go_on(handler) for name, handler in plain.items()}

    def _judge(self, place: Place) -> Verdict:
        return judge_place(self._policy, place.path)

    def _make(
        self, call: WaitingCall, at: int, index: int, make: Callable[[Place], None]
    ) -> Answer:
        with _place(call, at, index) as place:
            if self._judge(place) != "open":
                return GoOn()
            os.umask(umask_of(call))
            make(place)
            return Done()

    def _remove(self, call: WaitingCall, at: int, index: int, *, is_folder: bool) -> Answer:
        with _place(call, at, index) as place:
            if self._shared.is_there(place):
                self._shared.unlink(place)
                return Done()
            if self._judge(place) != "open":
                return GoOn()
            if is_pinned(self._policy, place.path):
                return Refused(errno.EACCES)
            remove = os.rmdir if is_folder else os.unlink
            remove(place.name, dir_fd=place.folder)
            return Done()

    def _rename(
        self, call: WaitingCall, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> Answer:
        with _place(call, *old) as source, _place(call, *new) as target:
            judged = {self._judge(source), self._judge(target)}
            if judged == {"open", "outside"}:
                return Refused(errno.EXDEV)  # programs copy then, if they may
            if judged != {"open"}:
                return GoOn()
            if any(is_pinned(self._policy, one.path) for one in (source, target)):
                return Refused(errno.EACCES)
            move_entry(source, target, flags)
            return Done()

    def _link(
        self, call: WaitingCall, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> Answer:
        if flags & (_FOLLOW | _BY_DESCRIPTOR):
            return GoOn()
        with _place(call, *old) as source, _place(call, *new) as target:
            if self._shared.is_there(source) and self._shared.is_there(target):
                self._shared.link(source, target)
                return Done()
            judged = (self._judge(source), self._judge(target))
            if judged == ("outside", "open"):
                return Refused(errno.EXDEV)
            if judged != ("open", "open"):
                return GoOn()
            os.link(
                source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder,
                follow_symlinks=False,
            )  # fmt: skip
            return Done()

    def _open(self, call: WaitingCall, at: tuple[int, int], flags: int, mode: int) -> Answer:
        flags &= 0xFFFFFFFF
        if flags & os.O_PATH:
            return GoOn()
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            return self._open_unnamed(call, at, flags, mode)
        path = words_of(call, at[1])
        with contextlib.ExitStack() as held:
            base = held.enter_context(open_base(call.pid, at[0], path))
            check_alive(call)
            for _ in range(_MOST_LINKS):
                place = held.enter_context(open_place(base, path))
                if self._shared.is_there(place):
                    os.umask(umask_of(call))
                    fd = self._shared.open_object(place, flags, mode)
                    return Opened(fd, bool(flags & os.O_CLOEXEC))
                if (terminal := self._terminals.open_named(place, call.pid, flags)) is not None:
                    return Opened(terminal, bool(flags & os.O_CLOEXEC))
                if self._judge(place) != "open" or place.is_folder:
                    return GoOn()
                answer = self._open_at(call, place, flags, mode)
                if not isinstance(answer, bytes):
                    return answer
                base, path = place.folder, answer
        return Refused(errno.ELOOP)

    def _open_at(self, call: WaitingCall, place: Place, flags: int, mode: int) -> Answer | bytes:
        """What a link there says, if there is one."""
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
        os.umask(umask_of(call))
        fd = os.open(
            place.name, flags | os.O_NOFOLLOW | os.O_NOCTTY, mode & 0o7777, dir_fd=place.folder
        )
        return Opened(fd, bool(flags & os.O_CLOEXEC))

    def _open_object(self, call: WaitingCall, fd: int, flags: int) -> Answer | bytes:
        """The caller's descriptor of what is held open already, at its place of now."""
        kind = os.fstat(fd).st_mode
        if stat.S_ISLNK(kind):
            if flags & os.O_NOFOLLOW:
                return Refused(errno.ELOOP)
            return os.readlink(b"", dir_fd=fd)
        if judge_place(self._policy, place_of(fd)) != "open":
            return GoOn()
        if stat.S_ISDIR(kind) and flags & os.O_CREAT:
            return Refused(errno.EISDIR)
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            return GoOn()
        wanted = flags & ~_NOT_AGAIN | os.O_NOCTTY
        if stat.S_ISFIFO(kind) and not flags & (os.O_NONBLOCK | os.O_RDWR):
            return _meet(call, os.dup(fd), wanted)
        opened = os.open(f"/proc/self/fd/{fd}", wanted)
        return Opened(opened, bool(flags & os.O_CLOEXEC))

    def _open_unnamed(
        self, call: WaitingCall, at: tuple[int, int], flags: int, mode: int
    ) -> Answer:
        path = words_of(call, at[1])
        with open_base(call.pid, at[0], path) as base, open_folder(base, path) as folder:
            check_alive(call)
            if judge_place(self._policy, f"{place_of(folder)}/file") != "open":
                return GoOn()
            os.umask(umask_of(call))
            fd = os.open(f"/proc/self/fd/{folder}", flags & ~os.O_NOFOLLOW, mode & 0o7777)
            return Opened(fd, bool(flags & os.O_CLOEXEC))

    def _open_peer(self, call: WaitingCall) -> Answer:
        flags = call.args[2] & 0xFFFFFFFF
        with _closing(_taken(call)) as master:
            peer = self._terminals.open_peer(master, flags)
        return GoOn() if peer is None else Opened(peer, bool(flags & os.O_CLOEXEC))

    def _truncate(self, call: WaitingCall) -> Answer:
        length = call.args[1]
        if length >= 1 << 63:
            return Refused(errno.EINVAL)
        answer = self._open(call, (HERE, 0), os.O_WRONLY | os.O_NONBLOCK, 0)
        if isinstance(answer, Opened):
            with _closing(answer.fd):
                os.ftruncate(answer.fd, length)
            return Done()
        return answer

    def _bind(self, call: WaitingCall) -> Answer:
        size = min(call.args[2], 128)
        try:
            address = call.read_memory(call.args[1], size)
        except OSError as error:
            raise NotResolved from error
        path = address[2:].partition(b"\0")[0]
        if len(address) < size or address[:2] != b"\x01\0" or not path:
            return GoOn()  # of another family, or without a path
        with open_base(call.pid, HERE, path) as base, open_place(base, path) as place:
            check_alive(call)
            is_whole = any(is_within(place.path, tree) for tree in self._policy.whole)
            if self._judge(place) != "open" or is_whole:
                return GoOn()  # done by the kernel the socket keeps the name that was asked for
            return bind_in(place, _taken(call), umask_of(call))


def bind_in(place: Place, fd: int, umask: int) -> Answer:
    """Give the socket, which is closed here, its name."""
    import socket  # few commands name sockets, and it is long

    with socket.socket(fileno=fd) as taken:
        if taken.family != socket.AF_UNIX:
            return Refused(errno.EINVAL)
        os.umask(umask)
        os.fchdir(place.folder)  # the thread's own
        try:
            taken.bind(place.name)
        finally:
            os.chdir("/")
    return Done()


def _taken(call: WaitingCall) -> int:
    """A copy of the descriptor that the call is about. Raises NotResolved, OSError."""
    try:
        return call.take_descriptor(call.args[0] & 0x7FFFFFFF)
    except PermissionError as error:
        raise NotResolved from error


@contextlib.contextmanager
def _place(call: WaitingCall, at: int, index: int) -> Iterator[Place]:
    """Raises NotResolved, OSError: the caller has gone, or its words cannot be read."""
    path = words_of(call, index)
    with open_base(call.pid, at, path) as base, open_place(base, path) as place:
        check_alive(call)
        yield place


def _folder_maker(mode: int) -> Callable[[Place], None]:
    return lambda place: os.mkdir(place.name, mode & 0o1777, dir_fd=place.folder)


def _node_maker(mode: int) -> Callable[[Place], None]:
    mode &= 0xFFFFFFFF

    def make(place: Place) -> None:
        if stat.S_IFMT(mode) not in _MADE:
            raise PermissionError(errno.EPERM, "no devices are made")
        os.mknod(place.name, mode, dir_fd=place.folder)

    return make


def _link_maker(target: bytes) -> Callable[[Place], None]:
    return lambda place: os.symlink(target, place.name, dir_fd=place.folder)


def _meet(call: WaitingCall, fd: int, flags: int) -> Answer:
    """Open a pipe as soon as somebody has its other end, or its opener goes."""

    def wait() -> Answer:
        with _closing(fd):
            while call.is_valid():
                with contextlib.suppress(OSError):
                    opened = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK)
                    os.set_blocking(opened, True)
                    return Opened(opened, bool(flags & os.O_CLOEXEC))
                select.poll().poll(_LOOK_AGAIN_MS)
        return Refused(errno.EINTR)

    return Slowly(wait) if flags & os.O_WRONLY else _given_back(fd)


def _given_back(fd: int) -> Answer:
    os.close(fd)
    return GoOn()


@contextlib.contextmanager
def _closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)
