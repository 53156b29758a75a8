"""Reads one configuration file: size limit, regular files only, UTF-8, TOML; errors name the place.

Each file is opened once, so the content that was checked is the content that is used.
"""

import os
import re
import stat
import tomllib
from pathlib import Path

from swarm.mailbox.base.bounded_formats import parse_toml_text
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import NotText, decode_written, encoding_of

from .schema import Toml

FILE_BYTES = 1 << 20
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_bounded(path: Path, *, limit_bytes: int = FILE_BYTES) -> bytes:
    """The content of a regular file, or of a link to one. Never waits for a pipe or device.

    Raises:
        FileNotFoundError: There is no such file.
        UsageError: It is no regular file, is too large, or cannot be read.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise UsageError(f"{path}: it is not a regular file")
            with os.fdopen(file, "rb", closefd=False) as stream:
                data = stream.read(limit_bytes + 1)
        finally:
            os.close(file)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # a name with a NUL byte
        raise UsageError(f"{str(path)!r}: cannot be read: {error}") from error
    if len(data) > limit_bytes:
        raise UsageError(f"{path}: over {limit_bytes >> 10} KiB; this is not a configuration")
    return data


def decode_text(data: bytes, path: Path) -> str:
    """Decode TOML, which is UTF-8. Raises UsageError with file, line and column."""
    encoding = encoding_of(data)
    if not encoding.startswith("utf-8"):
        what = f"not UTF-8, but {encoding.upper()}; save it as UTF-8"
        raise UsageError(f"{path}, line 1, column 1: {what}")
    try:
        return decode_written(data)
    except NotText as error:
        place = f"{path}, line {error.line}, column {error.column}"
        raise UsageError(f"{place}: {error.what}") from error


def parse_toml(text: str, path: Path) -> Toml:
    """Parse TOML. Raises UsageError with file, line and column."""
    try:
        return parse_toml_text(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _TOML_PLACE.search(message)
        line, column = _end_position(text)
        if found is not None and found[1]:
            line, column = int(found[1]), int(found[2])
        what = message[: found.start()] if found else message
        raise UsageError(f"{path}, line {line}, column {column}: not valid TOML: {what}") from error
    except ValueError as error:  # an impossible date, a number with thousands of digits, a bound
        raise UsageError(f"{path}: not valid TOML: {error}") from error


def _end_position(text: str) -> tuple[int, int]:
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def folder_warnings(folder: Path) -> tuple[str, ...]:
    """Warnings about a configuration folder that other users could change, or that is a link."""
    try:
        facts = folder.lstat()
        warnings: list[str] = []
        if stat.S_ISLNK(facts.st_mode):
            warnings.append(f"{folder} is a symbolic link to {folder.resolve()}")
            facts = folder.stat()
    except OSError:
        return ()
    if facts.st_mode & 0o002:
        warnings.append(
            f"everybody may write in {folder} and so change what agents may do; "
            f"run `chmod o-w {folder}`"
        )
    if facts.st_uid not in (os.getuid(), 0):
        warnings.append(f"{folder} belongs to another user (uid {facts.st_uid})")
    return tuple(warnings)
