"""Starting a command whose files are brokered (`sandbox/file_broker.py`), from the launcher.

Two threads: one confines itself to all that the command may have or have done for it, and stays to
answer its calls; a second one, made by the first, takes the command's own, narrower rules on top,
starts the command and ends. The command's rules lie below the broker's, so the kernel lets the
broker read its memory, and never the other way round.

Guards: the broker has no capabilities, and a working folder and umask of its own. All signals are
held in both threads.
"""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import TypeVar

from ..sandbox.connect import ConnectRules, connect_handlers
from ..sandbox.file_broker import FileBroker
from ..sandbox.landlock import apply_landlock, drop_capabilities, forbid_new_privileges
from ..sandbox.launch import Brokered
from ..sandbox.notifier import Handler, Notifier
from ..sandbox.notify_filter import CONNECT_CALLS, FILE_CALLS, build_notify_filter, install_notify_filter
from ..sandbox.places import FilePolicy, judge_place
from ..sandbox.resolve import place_of

_CLONE_FS = 0x200
_CALLS = (*FILE_CALLS, *CONNECT_CALLS)
_libc = ctypes.CDLL(None, use_errno=True)
_T = TypeVar("_T")


def start_under_broker(
    brokered: Brokered, confine: Callable[[], None], start: Callable[[], _T]
) -> _T:
    """What `start` returns, called in a thread that `confine` has confined and whose calls, and
    those of all it starts, are answered from now on. Raises what either raises, OSError.
    """
    outcome = SimpleQueue[_T | BaseException]()

    def stay() -> None:
        try:
            _confine_broker(brokered)
        except OSError as error:
            outcome.put(error)
            return
        broker = FileBroker(brokered.policy)
        handlers = {**broker.handlers(), **_connections(brokered.policy)}
        listeners = SimpleQueue[int | None]()
        words = (confine, start, listeners, outcome)
        threading.Thread(target=_begin, args=words, daemon=True).start()
        if (listener := listeners.get()) is not None:
            os.chdir("/")  # keep no file system busy
            try:
                Notifier().serve(listener, handlers)
            finally:
                broker.close()

    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        threading.Thread(target=stay, daemon=True, name="file-broker").start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    result = outcome.get()
    if isinstance(result, BaseException):
        raise result
    return result


def _connections(policy: FilePolicy) -> Mapping[str, Handler]:
    def is_own(socket: int, _root: int) -> bool:
        return judge_place(policy, place_of(socket)) == "open"

    return connect_handlers(ConnectRules(), is_own)


def _begin(
    confine: Callable[[], None],
    start: Callable[[], _T],
    listeners: "SimpleQueue[int | None]",
    outcome: "SimpleQueue[_T | BaseException]",
) -> None:
    listener = None
    try:
        confine()
        _leave_working_folder()
        listener = install_notify_filter(build_notify_filter(_CALLS))
        listeners.put(listener)
        result: _T | BaseException = start()
    except BaseException as error:  # whatever happens, the launcher is not left waiting
        result = error
    if listener is None:
        listeners.put(None)
    outcome.put(result)


def _confine_broker(brokered: Brokered) -> None:
    forbid_new_privileges()
    drop_capabilities()
    _leave_working_folder()
    apply_landlock(brokered.rules)


def _leave_working_folder() -> None:
    """From here on this thread's working folder and umask are its own."""
    if _libc.unshare(_CLONE_FS) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
