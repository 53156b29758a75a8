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
    """The caller closes both fds, the slave right after the launch."""

    master: int  # non-blocking
    slave: int


def open_terminal(*, rows: int = DEFAULT_ROWS, columns: int = DEFAULT_COLUMNS) -> Terminal:
    """A new terminal. Raises OSError when the system has no more."""
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    with contextlib.suppress(OSError):
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return Terminal(master=master, slave=slave)
