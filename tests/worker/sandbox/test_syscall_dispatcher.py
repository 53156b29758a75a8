"""Waiting system calls of real processes are answered from outside of them."""

import ctypes
import errno
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from swarm.worker.sandbox.landlock import forbid_new_privileges
from swarm.worker.sandbox.notify_filter import (
    CONNECT_CALLS,
    FILE_CALLS,
    build_notify_filter,
    install_notify_filter,
)
from swarm.worker.sandbox.syscall_dispatcher import (
    ContinueSyscall,
    DeferredAnswer,
    FailSyscall,
    PendingSyscall,
    ReturnDescriptor,
    ReturnValue,
    SyscallAnswer,
    SyscallDispatcher,
    SyscallHandler,
)


def confined(
    names: tuple[str, ...], handlers: Mapping[str, SyscallHandler], play: Callable[[], str]
) -> str:
    """What `play` said in a child that was forked under the filter."""
    read, write = os.pipe()
    started: list[tuple[int, int]] = []

    def confine_and_fork() -> None:
        forbid_new_privileges()
        listener = install_notify_filter(build_notify_filter(names))
        pid = os.fork()
        if pid == 0:
            said = "broke"
            try:
                said = play()
            except OSError as error:
                said = errno.errorcode[error.errno or 0]
            finally:
                os.write(write, said.encode())
                os._exit(0)
        started.append((listener, pid))

    thread = threading.Thread(target=confine_and_fork)
    thread.start()
    thread.join()
    os.close(write)
    [(listener, pid)] = started
    SyscallDispatcher().add_listener(listener, handlers)
    with os.fdopen(read) as words:
        said = words.read()
    os.waitpid(pid, 0)
    return said


def made(path: Path) -> str:
    path.mkdir()
    return "made"


def test_a_refused_call_fails_with_the_error_that_was_chosen(tmp_path: Path):
    handlers = {"mkdir": lambda _: FailSyscall(errno.EXDEV)}
    assert confined(FILE_CALLS, handlers, lambda: made(tmp_path / "x")) == "EXDEV"
    assert not (tmp_path / "x").exists()


def test_a_call_that_may_go_on_is_done_by_the_kernel(tmp_path: Path):
    assert (
        confined(FILE_CALLS, {"mkdir": lambda _: ContinueSyscall()}, lambda: made(tmp_path / "x"))
        == "made"
    )
    assert (tmp_path / "x").is_dir()


def test_a_handler_reads_the_path_and_acts_in_the_callers_place(tmp_path: Path):
    seen: list[bytes] = []

    def instead(call: PendingSyscall) -> SyscallAnswer:
        seen.append(call.read_path(0))
        (tmp_path / "y").mkdir()
        return ReturnValue(0)

    path = tmp_path / "x"
    assert confined(FILE_CALLS, {"mkdir": instead}, lambda: made(path)) == "made"
    assert seen == [os.fsencode(path)]
    assert [one.name for one in tmp_path.iterdir()] == ["y"]


def test_a_descriptor_is_opened_for_the_caller(tmp_path: Path):
    (tmp_path / "real").write_text("")

    def give(_: PendingSyscall) -> SyscallAnswer:
        return ReturnDescriptor(os.open(tmp_path / "real", os.O_WRONLY), close_on_exec=True)

    def play() -> str:
        fd = os.open(tmp_path / "asked", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"words")
        return str(os.get_inheritable(fd))

    assert confined(FILE_CALLS, {"openat": give}, play) == "False"
    assert (tmp_path / "real").read_text() == "words"


def test_opening_to_read_asks_nobody(tmp_path: Path):
    (tmp_path / "a").write_text("read")
    assert confined(FILE_CALLS, {}, lambda: (tmp_path / "a").read_text()) == "read"


@pytest.mark.parametrize(
    "handlers", [{"mkdir": lambda _: ReturnValue(1 // 0)}, {}], ids=["bug", "none"]
)
def test_a_handler_that_breaks_or_is_missing_refuses(
    handlers: Mapping[str, SyscallHandler], tmp_path: Path
):
    assert confined(FILE_CALLS, handlers, lambda: made(tmp_path / "x")) == "EPERM"


def test_a_socket_is_taken_and_connected_by_a_thread_of_its_own(tmp_path: Path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "s"))
    server.listen()

    def connect(call: PendingSyscall) -> SyscallAnswer:
        fd = call.take_descriptor(call.args[0])
        address = call.read_memory(call.args[1], call.args[2])

        def work() -> SyscallAnswer:
            with socket.socket(fileno=fd) as taken:
                taken.connect(address[2:].rstrip(b"\0"))
            return ReturnValue(0)

        return DeferredAnswer(work)

    def play() -> str:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            return client.recv(10).decode()

    def greet() -> None:
        with server.accept()[0] as peer:
            peer.sendall(b"hello")

    thread = threading.Thread(target=greet, daemon=True)
    thread.start()
    with server:
        assert confined(CONNECT_CALLS, {"connect": connect}, play) == "hello"
        thread.join()


def test_openat2_does_not_exist_where_opens_are_looked_at():
    libc = ctypes.CDLL(None, use_errno=True)

    def play() -> str:
        assert libc.syscall(437, -100, b"/", b"\0" * 24, 24) == -1
        return errno.errorcode[ctypes.get_errno()]

    assert confined(FILE_CALLS, {}, play) == "ENOSYS"
