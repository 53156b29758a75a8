"""Reads an archive (tar, also compressed, or zip) as the files of a plugin. Writes nothing.

Everything in an archive is hostile: the number of entries, the bytes after decompression, names,
links and devices. One that leads out, or holds a device, is refused as a whole.
"""

import bz2
import gzip
import lzma
import os
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import open_user_file
from swarm.roles.parts.plugins.files.plugin_tree import (
    MAX_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    LeftOut,
    TreeFile,
    check_file_name,
)

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MAX_ARCHIVE_BYTES = 64 << 20
_MAX_ENTRIES = 20_000
_MAX_UNPACKED = 2 * MAX_BYTES  # of a tar stream, headers and padding too

_Entry = TreeFile | LeftOut


def read_archive(path: Path) -> list[_Entry]:
    """All files of an archive. Raises UsageError, naming it; OSError if it cannot be opened.

    A single folder at the top, as archives of hosts have it, is taken off.
    """
    with os.fdopen(open_user_file(path), "rb") as stream:
        return read_archive_stream(stream, shown=str(path))


def read_archive_stream(stream: IO[bytes], *, shown: str) -> list[_Entry]:
    """The same for an open file that can seek. `shown` stands in errors."""
    if stream.seek(0, 2) > MAX_ARCHIVE_BYTES:
        raise UsageError(f"{shown}: over {MAX_ARCHIVE_BYTES >> 20} MiB")
    stream.seek(0)
    head = stream.read(6)
    stream.seek(0)
    try:
        entries = _zip(stream) if head.startswith(b"PK") else _tar(_unpacked(stream, head))
        return _without_top(list(entries))
    except UsageError as error:
        raise UsageError(f"{shown}: {error}") from error
    except (
        tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError,
        ValueError, NotImplementedError, RuntimeError,
    ) as error:  # fmt: skip
        raise UsageError(f"{shown}: it cannot be read as an archive: {error}") from error


def _unpacked(stream: IO[bytes], head: bytes) -> IO[bytes]:
    if head.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(stream, "rb"))
    if head.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(stream, "rb"))
    if head.startswith(b"\xfd7zXZ"):
        return cast("IO[bytes]", lzma.open(stream, "rb"))
    return stream


class _Counted:
    """A stream that ends with an error instead of giving without end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, _MAX_UNPACKED

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise UsageError(f"it unpacks to more than {_MAX_UNPACKED >> 20} MiB")
        return data


def _tar(stream: IO[bytes]) -> Iterator[_Entry]:
    bounds = _Bounds()
    with tarfile.open(fileobj=cast("IO[bytes]", _Counted(stream)), mode="r|") as tar:
        for member in tar:
            name = bounds.entry(member.name, is_folder=member.isdir())
            if member.isdir() or not name:
                continue
            if member.issym() or member.islnk():
                above = posixpath.dirname(name) if member.issym() else ""
                yield _link(name, posixpath.join(above, member.linkname))
                continue
            if not member.isreg() or member.issparse():
                raise UsageError(f"{name!r} is not a regular file")
            bounds.file(name, member.size)
            content = tar.extractfile(member)
            data = b"" if content is None else content.read(member.size)
            yield TreeFile(name=name, data=data, executable=bool(member.mode & 0o100))


def _zip(stream: IO[bytes]) -> Iterator[_Entry]:
    bounds = _Bounds()
    with zipfile.ZipFile(stream) as archive:
        for one in archive.infolist():
            name = bounds.entry(one.filename.rstrip("/"), is_folder=one.is_dir())
            if one.is_dir() or not name:
                continue
            mode = one.external_attr >> 16
            kind = stat.S_IFMT(mode)
            bounds.file(name, one.file_size)
            with archive.open(one) as content:
                data = content.read(one.file_size + 1)
            if len(data) > one.file_size:
                raise UsageError(f"{name!r} is larger than it says")
            if stat.S_ISLNK(mode):
                target = data.decode("utf-8", "replace")
                yield _link(name, posixpath.join(posixpath.dirname(name), target))
            elif kind not in (0, stat.S_IFREG):
                raise UsageError(f"{name!r} is not a regular file")
            else:
                yield TreeFile(name=name, data=data, executable=bool(mode & 0o100))


class _Bounds:
    """Counts entries and bytes. Raises UsageError at the first that is too much."""

    def __init__(self) -> None:
        self._entries = self._files = self._bytes = 0

    def entry(self, name: str, *, is_folder: bool) -> str:
        """The checked name; "" for the archive's own top."""
        self._entries += 1
        if self._entries > _MAX_ENTRIES:
            raise UsageError(f"it has more than {_MAX_ENTRIES:,} entries")
        plain = name.removeprefix("./").rstrip("/")
        if plain in ("", ".") and is_folder:
            return ""
        check_file_name(plain)
        return plain

    def file(self, name: str, size: int) -> None:
        self._files += 1
        self._bytes += size
        if self._files > MAX_FILES:
            raise UsageError(f"it holds more than {MAX_FILES:,} files")
        if size > MAX_FILE_BYTES or self._bytes > MAX_BYTES:
            raise UsageError(f"it is too large at {name!r}: {MAX_BYTES >> 20} MiB are allowed")


def _link(name: str, target: str) -> LeftOut:
    """A link is never made; one that leads out makes the archive suspect. Raises UsageError."""
    inside = posixpath.normpath(target)
    if target.startswith("/") or inside == ".." or inside.startswith("../"):
        raise UsageError(f"the link {name!r} leads out, to {target[:200]!r}")
    return LeftOut(name=name, why="it is a link, or no regular file")


def _without_top(entries: list[_Entry]) -> list[_Entry]:
    """The same below the only folder at the top, unless that is a part of a plugin."""
    tops = {one.name.partition("/")[0] for one in entries}
    top = next(iter(tops), "")
    if len(tops) != 1 or top.startswith(".") or any(one.name == top for one in entries):
        return entries
    if top in ("skills", "commands", "agents", "hooks"):
        return entries
    return [msgspec.structs.replace(one, name=one.name[len(top) + 1 :]) for one in entries]
