"""Keys from the terminal, one at a time, only while a question stands there.

Rule: the terminal is given back as it was, whatever ends the reading; what was typed before the
question appeared is thrown away; a process in the background touches nothing.
"""

import codecs
import os
import sys
import termios
import tty
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TextIO

import trio

_NAMES = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape"}
_MOST_BYTES = 4096


def split_keys(text: str) -> list[str]:
    """Names of the keys in what a terminal sent; arrows and their like are passed over.

    An escape sequence is one key; a lone escape is `escape`.
    """
    keys: list[str] = []
    rest = text
    while rest:
        if rest.startswith(("\x1b[", "\x1bO")):
            rest = rest[2:].lstrip("0123456789;?")[1:]
            continue
        sign, rest = rest[0], rest[1:]
        if (name := _NAMES.get(sign)) is not None:
            keys.append(name)
        elif sign.isprintable():
            keys.append(sign)
    return keys


def can_read(stream: TextIO) -> bool:
    """True if this process may read keys from this terminal now: it is in the foreground."""
    with suppress(OSError, ValueError, AttributeError):
        fd = stream.fileno()
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    return False


async def read_keys(stream: TextIO = sys.stdin) -> AsyncGenerator[str, None]:
    """Keys until the generator is closed or the terminal is gone. Close it with `aclosing`."""
    fd = stream.fileno()
    before = termios.tcgetattr(fd)
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    try:
        tty.setcbreak(fd, termios.TCSAFLUSH)  # Ctrl-C stays a signal
        while True:
            await trio.lowlevel.wait_readable(fd)
            data = os.read(fd, _MOST_BYTES)
            if not data:
                return
            for key in split_keys(decoder.decode(data)):
                yield key
    except OSError:
        return  # the terminal went away; the run goes on, other terminals can answer
    finally:
        with suppress(termios.error, OSError):
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)
