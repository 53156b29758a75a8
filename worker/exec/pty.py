"""A pseudo-terminal's two ends. End of file on its master is EIO, not an empty read."""

import contextlib
import fcntl
import os
import pty
import struct
import termios

import msgspec

DEFAULT_ROWS, DEFAULT_COLUMNS = 24, 80


class Terminal(msgspec.Struct, frozen=True, kw_only=True):
    """Both fds are the caller's to close; the slave right after the launch."""

    master: int  # non-blocking
    slave: int


def open_terminal(*, rows: int = DEFAULT_ROWS, columns: int = DEFAULT_COLUMNS) -> Terminal:
    """A fresh terminal. Raises OSError when the system has no more."""
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    resize_terminal(master, rows=rows, columns=columns)
    return Terminal(master=master, slave=slave)


def resize_terminal(fd: int, *, rows: int, columns: int) -> None:
    """The foreground group gets SIGWINCH. A terminal that is gone is ignored."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
