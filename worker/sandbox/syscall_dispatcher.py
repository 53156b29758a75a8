"""Answers system calls of a command from outside it (seccomp user notification).

A thread of the launcher receives each waiting call, a handler decides, and the thread sends the
answer: continue, fail, or "done for you" with a result or a new descriptor.

A handler reads the caller's memory once and acts on that copy. *Continue* makes the kernel read the
memory and the descriptor table again, so a handler may return it only where the kernel's own rules
(Landlock, mounts) hold whatever the caller puts there meanwhile. What a handler cannot read or does
not expect is refused.
"""

import ctypes
import errno
import fcntl
import logging
import os
import select
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from .notify_filter import call_name
from .path_resolution import NotResolved

_RECEIVE, _SEND, _IS_VALID, _ADD_FD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_SET_FLAGS, _SAME_PROCESSOR = 0x40082104, 1  # a hint of Linux 6.6
_CONTINUE_FLAG = 1
_ADDFD_SEND = 2  # the descriptor is the call's result
_NOTICE = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_NEW_FD = struct.Struct("=QIIII")
_PATH_MAX = 4096
_PIDFD_GETFD = 438
_MAX_DEFERRED = 64  # deferred answers at once, each in its own thread

_log = logging.getLogger("swarm.notifier")
_libc = ctypes.CDLL(None, use_errno=True)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class PendingSyscall(NamedTuple):
    """A system call of a confined process, which sleeps until it is answered."""

    listener: int
    id: int
    pid: int  # of the thread that called
    name: str
    args: tuple[int, ...]  # six unsigned words

    def is_valid(self) -> bool:
        """False once the caller has gone: then `pid` may belong to another process."""
        with suppress(OSError):
            fcntl.ioctl(self.listener, _IS_VALID, struct.pack("=Q", self.id))
            return True
        return False

    def read_memory(self, address: int, size: int) -> bytes:
        """Read at most `size` bytes; fewer at the end of a mapping.

        Raises OSError: nothing can be read there, or the caller has gone.
        """
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
            data = os.pread(memory.fileno(), size, address)
        if not self.is_valid():
            raise ProcessLookupError(errno.ESRCH, "the caller has gone")
        return data

    def write_memory(self, address: int, data: bytes) -> None:
        """Write to the caller's memory. Raises OSError: not writable, or the caller has gone."""
        if address == 0 or address + len(data) >= 1 << 63:
            raise OSError(errno.EFAULT, "bad address")
        try:
            memory = os.open(f"/proc/{self.pid}/mem", os.O_WRONLY | os.O_CLOEXEC)
        except PermissionError:
            # Under a broker's Landlock rules, which let it reach only the command's memory, even if
            # another process has got the pid by then.
            self._write_by_number(address, data)
            return
        try:
            if not self.is_valid():
                raise ProcessLookupError(errno.ESRCH, "the caller has gone")
            written = os.pwrite(memory, data, address)
        except OSError as error:
            raise OSError(errno.EFAULT, "bad address") from error
        finally:
            os.close(memory)
        if written < len(data):
            raise OSError(errno.EFAULT, "bad address")

    def _write_by_number(self, address: int, data: bytes) -> None:
        ours = ctypes.create_string_buffer(data, len(data))
        source = _Vector(ctypes.addressof(ours), len(data))
        target = _Vector(address, len(data))
        if not self.is_valid():
            raise ProcessLookupError(errno.ESRCH, "the caller has gone")
        done = _libc.process_vm_writev(
            self.pid, ctypes.byref(source), 1, ctypes.byref(target), 1, 0
        )
        if done != len(data):
            raise OSError(errno.EFAULT, "bad address")

    def give_descriptor(self, fd: int, *, close_on_exec: bool) -> int:
        """Install a copy of `fd` in the caller; return its number there. Raises OSError."""
        flags = os.O_CLOEXEC if close_on_exec else 0
        request = bytearray(_NEW_FD.pack(self.id, 0, fd, 0, flags))  # bytes give no result
        return int(fcntl.ioctl(self.listener, _ADD_FD, request))

    def read_path(self, index: int) -> bytes:
        """The path that argument `index` points to. Raises OSError: unreadable, or too long."""
        address = self.args[index]
        if address == 0 or address >= 1 << 63:
            raise OSError(errno.EFAULT, "bad address")
        # A mapping may end with the page: read up to there first.
        first = _PATH_MAX - address % _PATH_MAX
        data = self.read_memory(address, first)
        if b"\0" not in data:
            data += self.read_memory(address + first, _PATH_MAX - min(first, _PATH_MAX))
        path, end, _ = data.partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG, "no path ends there")
        return path

    def take_descriptor(self, number: int) -> int:
        """A copy of the caller's descriptor, which our caller closes. Raises OSError."""
        pidfd = os.pidfd_open(_thread_group(self.pid))
        try:
            if not self.is_valid():
                raise ProcessLookupError(errno.ESRCH, "the caller has gone")
            fd = int(_libc.syscall(_PIDFD_GETFD, pidfd, number, 0))
        finally:
            os.close(pidfd)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "cannot take the caller's descriptor")
        return fd


class ContinueSyscall(NamedTuple):
    """The kernel does what was asked, by its own rules. See the module's docstring."""


class FailSyscall(NamedTuple):
    """The call fails with this error."""

    number: int = errno.EACCES


class ReturnValue(NamedTuple):
    """The call was done for the caller, who sees this result."""

    value: int = 0


class ReturnDescriptor(NamedTuple):
    """The caller gets a copy of this descriptor as the result; `fd` is closed here."""

    fd: int
    close_on_exec: bool


class DeferredAnswer(NamedTuple):
    """The answer may take long, so a separate thread computes it."""

    work: "Callable[[], SyscallAnswer]"


SyscallAnswer = ContinueSyscall | FailSyscall | ReturnValue | ReturnDescriptor | DeferredAnswer
SyscallHandler = Callable[[PendingSyscall], SyscallAnswer]


class SyscallDispatcher:
    """Serves any number of listeners in one thread, which ends with the process.

    A listener whose processes have all gone is closed automatically.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Mapping[str, SyscallHandler]] = {}
        self._poll = select.poll()
        self._deferred_slots = threading.Semaphore(_MAX_DEFERRED)
        self._thread: threading.Thread | None = None
        self._awake, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll.register(self._awake, select.POLLIN)

    def add_listener(self, listener: int, handlers: Mapping[str, SyscallHandler]) -> None:
        """Answer calls from `listener` by `handlers` (call name → handler). It is closed here.

        The first call starts the thread, which inherits the confinement of the calling thread.
        """
        with suppress(OSError):
            fcntl.ioctl(listener, _SET_FLAGS, _SAME_PROCESSOR)
        self._handlers[listener] = handlers
        self._poll.register(listener, select.POLLIN)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True, name="notifier")
            self._thread.start()
        os.write(self._wake, b"\0")  # a poll that has begun does not see new descriptors

    def serve_listener(self, listener: int, handlers: Mapping[str, SyscallHandler]) -> None:
        """Answer calls from `listener` in this thread until no process is left under the filter.

        The listener is closed here. Use it instead of `add_listener`, and only once.
        """
        with suppress(OSError):
            fcntl.ioctl(listener, _SET_FLAGS, _SAME_PROCESSOR)
        self._handlers[listener] = handlers
        self._poll.register(listener, select.POLLIN)
        try:
            self._serve()
        finally:  # if this thread fails, the callers' calls fail: no process sleeps forever
            for fd in (self._awake, self._wake, *self._handlers):
                os.close(fd)

    def _serve(self) -> None:
        while self._handlers:
            for fd, events in self._poll.poll():
                if fd == self._awake:
                    os.read(fd, 4096)
                elif events & select.POLLIN:
                    self._serve_one(fd)
                else:  # no process is left under the filter
                    self._poll.unregister(fd)
                    del self._handlers[fd]
                    os.close(fd)

    def _serve_one(self, listener: int) -> None:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
        except OSError:
            return  # the call was interrupted before it was received
        number, pid, _, nr, _, _, *args = _NOTICE.unpack(notice)
        call = PendingSyscall(listener, number, pid, call_name(nr), tuple(args))
        self._answer(call, _run_handler(call, self._handlers[listener].get(call.name)))

    def _answer(self, call: PendingSyscall, answer: SyscallAnswer) -> None:
        if not isinstance(answer, DeferredAnswer):
            _send_answer(call, answer)
            return
        if not self._deferred_slots.acquire(blocking=False):
            _send_answer(call, FailSyscall(errno.EAGAIN))
            return
        work = answer.work

        def work_out() -> None:
            try:
                _send_answer(call, _run_handler(call, lambda _: work()))
            finally:
                self._deferred_slots.release()

        threading.Thread(target=work_out, daemon=True, name="notifier-slow").start()


def _run_handler(call: PendingSyscall, handler: SyscallHandler | None) -> SyscallAnswer:
    if handler is None:
        return FailSyscall(errno.EPERM)
    try:
        return handler(call)
    except OSError as error:
        return FailSyscall(error.errno or errno.EPERM)
    except Exception:  # a bug must neither allow the call nor leave the caller asleep
        _log.exception("a waiting %s could not be judged; it was refused", call.name)
        return FailSyscall(errno.EPERM)


def _send_answer(call: PendingSyscall, answer: SyscallAnswer) -> None:
    if isinstance(answer, ReturnDescriptor):
        flags = os.O_CLOEXEC if answer.close_on_exec else 0
        body = _NEW_FD.pack(call.id, _ADDFD_SEND, answer.fd, 0, flags)
        try:
            fcntl.ioctl(call.listener, _ADD_FD, body)
        except OSError as error:
            answer_instead = FailSyscall(error.errno or errno.EPERM)
            _send_answer(call, answer_instead)
        finally:
            os.close(answer.fd)
        return
    match answer:
        case ContinueSyscall():
            body = _ANSWER.pack(call.id, 0, 0, _CONTINUE_FLAG)
        case ReturnValue(value):
            body = _ANSWER.pack(call.id, value, 0, 0)
        case FailSyscall(number):
            body = _ANSWER.pack(call.id, 0, -number, 0)
        case _:  # a deferred answer may not defer again
            body = _ANSWER.pack(call.id, 0, -errno.EPERM, 0)
    with suppress(OSError):  # the caller has gone
        fcntl.ioctl(call.listener, _SEND, body)


def _thread_group(tid: int) -> int:
    """The process of a thread. Raises OSError."""
    with open(f"/proc/{tid}/status", "rb") as status:  # noqa: PTH123
        for line in status:
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    raise ProcessLookupError(errno.ESRCH, "the caller has gone")


AT_FDCWD = (1 << 32) - 100  # AT_FDCWD, as an unsigned word


def continue_if_unresolved(handler: Callable[[PendingSyscall], SyscallAnswer]) -> SyscallHandler:
    """A handler that leaves to the kernel's own rules what cannot be resolved."""

    def handle(call: PendingSyscall) -> SyscallAnswer:
        try:
            return handler(call)
        except NotResolved:
            return ContinueSyscall()

    return handle


def read_path_argument(call: PendingSyscall, index: int) -> bytes:
    """The path of an argument. Raises NotResolved: the caller's memory is protected, or no path."""
    try:
        return call.read_path(index)
    except OSError as error:
        raise NotResolved from error


def check_caller_alive(call: PendingSyscall) -> None:
    """Check that what was opened by the caller's pid was the caller's. Raises OSError."""
    if not call.is_valid():
        raise ProcessLookupError(errno.ESRCH, "the caller has gone")


def caller_umask(call: PendingSyscall) -> int:
    """The caller's umask. Raises OSError."""
    with open(f"/proc/{call.pid}/status", "rb") as status:  # noqa: PTH123
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    raise ProcessLookupError(errno.ESRCH, "the caller has gone")
