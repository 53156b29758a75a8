"""Process setup after a fork: drops inherited state and hides the process. Linux only.

A forked child keeps only the descriptors that it is meant to have. It does not keep those of its
siblings, of the supervisor or of the shell that started swarm.
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

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_M_ARENA_MAX = -8
_THREAD_LIBRARIES = {"pthread": "libpthread.so.0"}  # as `ldconfig` reports it on every glibc system
_MAX_FDS = 1 << 20
_signal = vars(import_module("_signal"))  # without the enums that `signal` wraps around its numbers
# signal.signal converts the old handler to an enum and fails at it, which costs 30 pages a fork.
set_handler: Callable[[int, object], object] = _signal["signal"]
# signal.valid_signals would delay the first agent by 2 ms.
valid_signals: Callable[[], set[int]] = _signal["valid_signals"]
_set_mask: Callable[[int, Collection[int]], Collection[int]] = _signal["pthread_sigmask"]
_RESET = tuple(
    map(int, (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGQUIT, signal.SIGCONT))
)
DEFAULT_HANDLER, IGNORE_HANDLER = (
    int(signal.SIG_DFL),
    int(signal.SIG_IGN),
)  # set_handler takes no enum for a handler
_libc = ctypes.CDLL(None, use_errno=True)
_fork = ctypes.PyDLL(None, use_errno=True).fork  # holds the GIL, as os.fork does
# Looked up once: ctypes makes a class for each function, and each child would make it again.
_before_fork = ctypes.pythonapi.PyOS_BeforeFork
_after_fork_parent = ctypes.pythonapi.PyOS_AfterFork_Parent
_after_fork_child = ctypes.pythonapi.PyOS_AfterFork_Child


def fork_bare() -> int:
    """fork(2), called between `before_fork` and `after_fork_in_parent`.

    os.fork runs the child's hooks (locks, threading, random) at once, which copies 170 pages. Here
    the child must call `after_fork_in_child` itself. Until then it may fork once more, move
    descriptors and wait in a system call, but not import, lock or use randomness. The caller must
    have one thread. Raises OSError.
    """
    pid: int = _fork()
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return pid


def limit_malloc_arenas() -> None:
    """Use one malloc arena for all threads, also in children; two more cost each agent 80 KB."""
    with suppress(AttributeError):  # a C library without arenas
        _libc.mallopt(_M_ARENA_MAX, 1)


def before_fork() -> None:
    """Run Python's hooks before a fork. Call `after_fork_in_parent` next, even if it fails."""
    _before_fork()


def after_fork_in_parent() -> None:
    """Run Python's hooks after a fork in the parent."""
    _after_fork_parent()


def after_fork_in_child() -> None:
    """Run Python's hooks after a fork in the child; from then on it is an ordinary process."""
    _after_fork_child()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while this process forks: it arrives when the block ends.

    os.fork runs hooks written in Python (logging has one) and drops what is raised in them: an
    interrupt that came there would end nothing.
    """
    before = _set_mask(int(signal.SIG_BLOCK), (int(signal.SIGINT),))
    try:
        yield
    finally:
        _set_mask(int(signal.SIG_SETMASK), before)


def become_subreaper() -> None:
    """Adopt all orphans below this process. A fork does not inherit this setting."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def disable_core_dumps() -> None:
    """Disable core files, and ptrace and /proc/<pid>/mem for this user's processes. Inherited."""
    _prctl(_PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def die_with_parent() -> None:
    """In a child, before its program: the kernel kills it with the thread that started it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}) failed: {os.strerror(number)}")


def reset_inherited_state(*, stderr_fd: int, keep: Collection[int]) -> None:
    """Make a process group; redirect stdin to /dev/null, stdout and stderr to `stderr_fd`.

    All other descriptors are closed, except those in `keep`. Signal handlers
    return to the default, but SIGINT does nothing.
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
    """Change to `/` and remove the working folder from `sys.path`.

    The working folder is the user's project. It may hold a trio.py that must not be imported, and
    it may be removed at any time.
    """
    here = ""
    with suppress(OSError):  # the folder is gone: nothing can be imported from it
        here = os.getcwd()  # noqa: PTH109 — a Path would copy 15 pages
    sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]
    os.chdir("/")


def redirect_output(stderr_fd: int) -> None:
    """Send stdout and stderr to `stderr_fd`."""
    for number in (1, 2):
        os.dup2(stderr_fd, number)


def ignore_interrupts() -> None:
    """Ignore SIGINT: the supervisor decides what Ctrl-C means.

    Uses a handler that does nothing, because the agent's commands would inherit SIG_IGN.
    One that was held back (`interrupts_held`) is ignored now, too.
    """
    set_handler(signal.SIGINT, _do_nothing)
    _set_mask(int(signal.SIG_UNBLOCK), (int(signal.SIGINT),))


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
    """Pause garbage collection for imports: imported objects stay; it costs a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def skip_library_search() -> Iterator[None]:
    """Skip ctypes' library search while Trio is imported.

    Trio asks `ctypes` for the name of the thread library. `ctypes` would run `ldconfig` to find it:
    one more process, and 10 ms of every start. On glibc the name is fixed.
    """
    search = ctypes.util.find_library
    if "CS_GNU_LIBC_VERSION" in os.confstr_names and os.confstr("CS_GNU_LIBC_VERSION"):
        ctypes.util.find_library = lambda name: _THREAD_LIBRARIES.get(name) or search(name)
    try:
        yield
    finally:
        ctypes.util.find_library = search


def run_and_exit(program: Callable[[], int]) -> NoReturn:
    """Run `program` in a forked child and exit with the code that it returns.

    An exception from `program` is printed on stderr. The caller's frames never continue in the
    child, so the child closes nothing of the parent's a second time.
    """
    code = 1
    try:
        code = program()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        exit_child(code)


def exit_child(code: int) -> NoReturn:
    """Exit a forked child at once, without the parent's exit handlers; flush stdout and stderr."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
