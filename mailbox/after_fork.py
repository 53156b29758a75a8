"""What a process of the run does first: shed what it inherited, and be private. Linux only.

A forked child holds the descriptors it was meant to have and no other: not its siblings', not the
supervisor's, not those of the shell that started it.
"""

import ctypes
import ctypes.util
import gc
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NoReturn

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_M_ARENA_MAX = -8
_THREAD_LIBRARIES = {"pthread": "libpthread.so.0"}  # what `ldconfig` says wherever there is glibc
_MAX_FDS = 1 << 20
_signal = vars(import_module("_signal"))  # without the enums that `signal` makes of its numbers
# signal.signal turns the old handler into one and fails at it: 30 pages a fork.
set_handler: Callable[[int, object], object] = _signal["signal"]
# signal.valid_signals takes 2 ms of the way to the first agent.
valid_signals: Callable[[], set[int]] = _signal["valid_signals"]
_RESET = tuple(
    map(int, (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGQUIT, signal.SIGCONT))
)
DEFAULT_HANDLER, IGNORE_HANDLER = (
    int(signal.SIG_DFL),
    int(signal.SIG_IGN),
)  # it takes no enum for a handler
_libc = ctypes.CDLL(None, use_errno=True)
_fork = ctypes.PyDLL(None, use_errno=True).fork  # keeps the interpreter's lock, as os.fork does
# Looked up here: ctypes makes a class for each function, and a child would do that again and again.
_before_fork = ctypes.pythonapi.PyOS_BeforeFork
_after_fork_parent = ctypes.pythonapi.PyOS_AfterFork_Parent
_after_fork_child = ctypes.pythonapi.PyOS_AfterFork_Child


def fork_bare() -> int:
    """fork(2) between `before_fork` and `after_fork_in_parent`; the child has yet to call
    `after_fork_in_child`.

    os.fork at once runs the child's hooks (locks, threading, random), which copies 170 pages. Until
    it settles, a bare child may fork once more, move descriptors and wait in a system call: no
    imports, no locks, no randomness. The caller has one thread. Raises OSError.
    """
    pid: int = _fork()
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return pid


def limit_malloc_arenas() -> None:
    """One arena for all threads to come, children's too: two more would cost each agent 80 KB."""
    with suppress(AttributeError):  # a C library without arenas
        _libc.mallopt(_M_ARENA_MAX, 1)


def before_fork() -> None:
    """What Python does before a fork; `after_fork_in_parent` follows, also when the fork failed."""
    _before_fork()


def after_fork_in_parent() -> None:
    """What Python does after a fork in the parent."""
    _after_fork_parent()


def after_fork_in_child() -> None:
    """What Python does after a fork in the child: from here on it is like any other."""
    _after_fork_child()


def become_subreaper() -> None:
    """Adopt every orphan below this process. Not inherited by fork: each process asks itself."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def disable_core_dumps() -> None:
    """No core file, no ptrace and no /proc/<pid>/mem for others of this user. Inherited by fork."""
    _prctl(_PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}) failed: {os.strerror(number)}")


def reset_inherited_state(*, stderr_fd: int, keep: Collection[int]) -> None:
    """Own process group, /dev/null to read, `stderr_fd` to write; all but `keep` is closed.

    Signal handlers go back to the default, but SIGINT does nothing.
    """
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    redirect_output(stderr_fd)
    close_all_but({0, 1, 2, *keep})
    signal.set_wakeup_fd(-1)
    for number in _RESET:
        set_handler(number, DEFAULT_HANDLER)
    ignore_interrupts()
    leave_working_folder()


def leave_working_folder() -> None:
    """Nothing is imported from the folder where swarm was started, and nothing depends on it: it
    is the user's project, which may hold a trio.py, and may be removed at any time.
    """
    here = ""
    with suppress(OSError):  # it is gone already: then nothing lies there
        here = os.getcwd()  # noqa: PTH109 — a Path would copy 15 pages
    sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]
    os.chdir("/")


def redirect_output(stderr_fd: int) -> None:
    """Whatever this process prints goes there."""
    for number in (1, 2):
        os.dup2(stderr_fd, number)


def ignore_interrupts() -> None:
    """The supervisor decides what a person's Ctrl-C means.

    A handler that does nothing and not SIG_IGN, which the agent's commands would inherit.
    """
    set_handler(signal.SIGINT, _do_nothing)


def _do_nothing(number: int, frame: object) -> None:
    """SIGINT is for the supervisor."""


def close_all_but(keep: Collection[int]) -> None:
    """Close every descriptor of this process that is not in `keep`."""
    start = 0
    for fd in sorted(keep):
        if start < fd:  # closerange(0, 0) closes everything: its bound becomes -1
            os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, _MAX_FDS)


@contextmanager
def gc_paused() -> Iterator[None]:
    """While modules are imported: what they make stays, and a look through all of it for garbage
    costs a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def skip_library_search() -> Iterator[None]:
    """While Trio is imported: it asks `ctypes` what the library of threads is called, and that runs
    `ldconfig` to find out: a process, and 10 ms of every start. With glibc there is one answer.
    """
    search = ctypes.util.find_library
    if "CS_GNU_LIBC_VERSION" in os.confstr_names and os.confstr("CS_GNU_LIBC_VERSION"):
        ctypes.util.find_library = lambda name: _THREAD_LIBRARIES.get(name) or search(name)
    try:
        yield
    finally:
        ctypes.util.find_library = search


def run_and_exit(life: Callable[[], int]) -> NoReturn:
    """A forked child's whole life: it ends with the exit code that `life` returns.

    What `life` raises is said on stderr. The forking caller's frames never run on in the child, so
    nothing of theirs is closed twice.
    """
    code = 1
    try:
        code = life()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        exit_child(code)


def exit_child(code: int) -> NoReturn:
    """End a forked child at once, without the parent's exit handlers; what it printed is kept."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
