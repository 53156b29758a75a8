"""Read single keys from a terminal, without Enter.

The terminal's mode is restored when the block ends, however it ends, and while Ctrl-Z has stopped
the process. A process in the background, or without a terminal, reads no keys and changes nothing.
"""

import math
import os
import signal
import termios
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import trio

ESC_WAIT_S = 0.05  # bytes within this time after an ESC belong to its sequence
_BACKGROUND_CHECK_S = 0.5  # interval of the checks whether the process is in the foreground again
_MOST_BYTES = 32  # of one sequence; longer ones are invalid
_ESC = 0x1B
_FINALS = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "M": "enter",
    "Z": "back_tab",
}  # fmt: skip
_NUMBERS = {
    "1": "home", "3": "delete", "4": "end", "5": "page_up", "6": "page_down", "7": "home",
    "8": "end",
}  # fmt: skip
_CONTROLS = {
    0x03: "ctrl-c",
    0x0D: "enter",
    0x0A: "enter",
    0x09: "tab",
    0x7F: "backspace",
    0x08: "backspace",
}


def decode_keys(data: bytes, *, at_rest: bool) -> tuple[tuple[str, ...], bytes]:
    """The pressed keys, and the bytes of an incomplete key. No I/O.

    Args:
        data: The terminal's bytes; any value is accepted.
        at_rest: No data followed for a while: a lone ESC is the key; a partial sequence is dropped.

    Returns:
        Keys in order: a printable character, or one of `up down left right home end page_up
        page_down enter esc tab back_tab backspace delete`; others are skipped. The rest is shorter
        than 32 bytes, and empty if `at_rest`.
    """
    keys: list[str] = []
    index = 0
    while index < len(data):
        key, size = _next_key(data[index : index + _MOST_BYTES])
        if size == 0:  # incomplete
            if not at_rest:
                return tuple(keys), data[index:]
            key, size = ("esc" if data[index] == _ESC else ""), 1
            if data[index + 1 : index + 2] in {b"[", b"O"}:
                key, size = "", len(data) - index
        if key:
            keys.append(key)
        index += size
    return tuple(keys), b""


def _next_key(data: bytes) -> tuple[str, int]:
    """The first key ("" = unknown) and its number of bytes; 0 bytes: more must arrive."""
    first = data[0]
    if first == _ESC:
        return _escape(data)
    if first < 0x20 or first == 0x7F:
        return _CONTROLS.get(first, ""), 1
    if first < 0x80:
        return chr(first), 1
    size = 2 if 0xC2 <= first < 0xE0 else 3 if 0xE0 <= first < 0xF0 else 4
    if not 0xC2 <= first < 0xF5:
        return "", 1
    try:
        text = data[:size].decode()
    except UnicodeDecodeError as error:
        return ("", 0) if error.reason == "unexpected end of data" else ("", 1)
    return (text, size) if text.isprintable() else ("", size)


def _escape(data: bytes) -> tuple[str, int]:
    if len(data) < 2:
        return "", 0
    if data[1] == ord("O"):
        return (_FINALS.get(chr(data[2]), ""), 3) if len(data) > 2 else ("", 0)
    if data[1] != ord("["):
        return "esc", 1
    for index in range(2, len(data)):
        if 0x40 <= data[index] <= 0x7E:
            return _control_sequence(data[2:index], chr(data[index])), index + 1
        if not 0x20 <= data[index] <= 0x3F:
            return "", index  # not a sequence: the next byte is parsed on its own
    return ("", 0) if len(data) < _MOST_BYTES else ("", len(data))


def _control_sequence(parameters: bytes, final: str) -> str:
    if final == "~":
        return _NUMBERS.get(parameters.decode("ascii", "replace").partition(";")[0], "")
    return _FINALS.get(final, "")


# --- the terminal --------------------------------------------------------------------------------


def can_read_keys(fd: int) -> bool:
    """True if this is a terminal and the process is in its foreground."""
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def has_keys(fd: int) -> bool:
    """As `can_read_keys`, and also for a terminal without job control: nobody else reads it."""
    return os.isatty(fd) and _is_foreground(fd)


class KeyReader:
    """Iterates over the pressed keys; ends when the terminal is closed."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._undecoded = b""
        self._pressed = deque[str]()

    def __aiter__(self) -> "KeyReader":
        return self

    async def __anext__(self) -> str:
        while not self._pressed:
            await self._read()
        return self._pressed.popleft()

    async def _read(self) -> None:
        data, at_rest = b"", True
        with trio.move_on_after(ESC_WAIT_S if self._undecoded else math.inf):
            await trio.lowlevel.wait_readable(self._fd)
            at_rest = False
            data = await self._read_bytes()
        keys, self._undecoded = decode_keys(self._undecoded + data, at_rest=at_rest)
        self._pressed.extend(keys)

    async def _read_bytes(self) -> bytes:
        """The typed bytes; b"" in the background, where input belongs to the shell."""
        if not _is_foreground(self._fd):
            await trio.sleep(_BACKGROUND_CHECK_S)
            return b""
        try:
            with _block_tty_signals():
                data = os.read(self._fd, 1024)
        except OSError as error:
            if os.isatty(self._fd) and not _is_foreground(self._fd):
                return b""  # moved to the background just now
            raise StopAsyncIteration from error  # terminal closed
        if not data:
            raise StopAsyncIteration
        return data


@asynccontextmanager
async def open_keyboard(
    fd: int,
    *,
    interrupts: bool = False,
    on_stop: Callable[[bool], None],
) -> AsyncIterator[KeyReader]:
    """Yield the keys of a terminal for which `can_read_keys` is true. Raises OSError for others.

    Args:
        fd: The terminal.
        interrupts: True: Ctrl-C stays a signal. False: it is the key `ctrl-c`.
        on_stop: Called with True before Ctrl-Z stops the process, and with False when the process
            is in the foreground again.
    """
    with _cbreak_mode(fd, interrupts=interrupts) as mode:
        async with trio.open_nursery() as nursery:
            if threading.current_thread() is threading.main_thread():
                await nursery.start(_handle_stop_signals, fd, mode, on_stop)
            yield KeyReader(fd)
            nursery.cancel_scope.cancel()


class _TerminalMode:
    """The terminal mode without echo and line buffering. Signals other than Ctrl-C stay
    unchanged.
    """

    def __init__(self, fd: int, *, interrupts: bool) -> None:
        self._fd, self._interrupts = fd, interrupts
        try:
            self._original = termios.tcgetattr(fd)
        except termios.error as error:
            raise OSError(*error.args) from error

    def enter(self) -> None:
        mode = list(self._original)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        mode[6] = [*self._original[6]]
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        if not self._interrupts:  # Ctrl-C becomes a key: a signal could interrupt a change halfway
            mode[6][termios.VINTR] = b"\0"
        self._set(mode)

    def leave(self) -> None:
        self._set(self._original)

    def _set(self, mode: list[int | list[bytes | int]]) -> None:
        with suppress(termios.error), _block_tty_signals():
            termios.tcsetattr(self._fd, termios.TCSANOW, mode)


@contextmanager
def _block_tty_signals() -> Iterator[None]:
    """Block the signals that stop a background process when it uses the terminal."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU, signal.SIGTTIN})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def _cbreak_mode(fd: int, *, interrupts: bool) -> Iterator[_TerminalMode]:
    mode = _TerminalMode(fd, interrupts=interrupts)
    mode.enter()
    try:
        yield mode
    finally:
        mode.leave()


async def _handle_stop_signals(
    fd: int,
    mode: _TerminalMode,
    on_stop: Callable[[bool], None],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """On Ctrl-Z restore the terminal's mode; enter our mode again in the foreground."""
    with trio.open_signal_receiver(signal.SIGTSTP, signal.SIGCONT) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGTSTP:
                on_stop(True)
                mode.leave()
                _stop_process()
            if _is_foreground(fd):
                mode.enter()
                on_stop(False)


def _stop_process() -> None:
    """Stop as SIGTSTP does by default; returns when the process is continued."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        signal.raise_signal(signal.SIGTSTP)
    finally:
        signal.signal(signal.SIGTSTP, handler)


def _is_foreground(fd: int) -> bool:
    """True if no other process group is in the foreground of this terminal."""
    try:
        return os.tcgetpgrp(fd) in (0, os.getpgrp())
    except OSError:
        return True  # not our controlling terminal: it has no job control
