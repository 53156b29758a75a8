"""Finds the commits that an agent made in its copy, and packs their objects for git to read.

The copy's `.git` was written by confined code, though only where the commit grant lets it: it is
read through no link, within bounds, and only by names that git gives to refs and objects. What is
in the objects is for git to check, in the sandbox. Blocks.
"""

import hashlib
import re
import stat
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_whole, scan_folder

from .copy_folder import AgentCopy, CopyFolder

_MOST_OBJECTS = 20_000
_MOST_BYTES = 512 << 20  # of all objects together, unpacked
_MOST_REFS_BYTES = 16 << 20
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"ref: (refs/[A-Za-z0-9._/-]{1,200})")
_FAN_OUT = re.compile(r"[0-9a-f]{2}")
_OBJECT = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_PACK = re.compile(r"pack-[0-9a-f]{40,64}\.pack")
_HEADER = re.compile(rb"(commit|tree|blob|tag) (\d{1,12})\0")
_TYPES = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}


class CommitsUnreadable(SwarmError):
    """The agent's commits cannot be taken over; its files can."""


class AgentCommits(msgspec.Struct, frozen=True):
    """Commits from the one at which the agent began up to its last."""

    start: str
    tip: str
    stores: tuple[str, ...]  # folders of git objects that the agent wrote


def find_commits(folder: CopyFolder, copy: AgentCopy, top: str) -> AgentCommits | None:
    """The agent's commits in the repository whose working tree is `top`; None: it made none.

    Raises CommitsUnreadable.
    """
    for index, root in enumerate(copy.roots):
        if not is_within(top, root.path):
            continue
        git = str(Path(top).relative_to(root.path) / ".git")
        base = folder.tree(copy.base, index) / git
        if copy.tree:
            own = [Path(copy.tree) / git]
            stores = [own[0] / "objects"]
        else:
            own = [folder.upper(copy.agent_id, index) / git, base]
            live = [name for name, _ in root.live]
            stores = [folder.upper(copy.agent_id, index) / git / "objects"]
            if (objects := f"{git}/objects") in live:
                mount = folder.mounts(copy)[index].live[live.index(objects)]
                stores.append(Path(mount.upper))
        start, tip = _head([base]), _head(own)
        if not start or not tip or start == tip:
            return None
        return AgentCommits(start=start, tip=tip, stores=tuple(map(str, stores)))
    return None


def read_packs(commits: AgentCommits) -> Iterator[bytes]:
    """All objects that the agent wrote, as packs that `git index-pack` reads.

    Raises CommitsUnreadable.
    """
    try:
        loose = tuple(_loose(commits.stores))
        if loose:
            yield _pack(loose, is_sha256=len(commits.tip) == 64)
        for path in _packs(commits.stores):
            yield read_whole(open_canonical(path, READ_FLAGS), most_bytes=_MOST_BYTES)
    except (OSError, ValueError, zlib.error) as error:
        raise CommitsUnreadable(f"its commits cannot be read: {error}") from error


def _head(folders: list[Path]) -> str:
    """The commit of HEAD by the first folder that knows it; "" for none."""
    text = _first(folders, "HEAD")
    named = _REF.fullmatch(text)
    if named is None:
        return text if _COMMIT.fullmatch(text) else ""
    ref = named[1]
    if ".." in ref or "//" in ref:
        return ""
    found = _first(folders, ref)
    if _COMMIT.fullmatch(found):
        return found
    for line in _first(folders, "packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref and _COMMIT.fullmatch(commit):
            return commit
    return ""


def _first(folders: list[Path], name: str) -> str:
    for folder in folders:
        with suppress(OSError):
            fd = open_canonical(str(folder / name), READ_FLAGS)
            data = read_whole(fd, most_bytes=_MOST_REFS_BYTES)
            return data.decode("utf-8", "replace").strip()
    return ""


def _loose(stores: tuple[str, ...]) -> Iterator[tuple[int, bytes]]:
    """Type and contents of each loose object. Raises OSError, ValueError, zlib.error."""
    room, count = _MOST_BYTES, 0
    for store in stores:
        for fan_out in _names(store, _FAN_OUT, stat.S_ISDIR):
            for name in _names(f"{store}/{fan_out}", _OBJECT, stat.S_ISREG):
                path = f"{store}/{fan_out}/{name}"
                data = read_whole(open_canonical(path, READ_FLAGS), most_bytes=_MOST_BYTES)
                kind, contents = _unpack(data, room)
                room, count = room - len(contents), count + 1
                if count > _MOST_OBJECTS:
                    raise ValueError(f"more than {_MOST_OBJECTS:,} objects")
                yield kind, contents


def _unpack(data: bytes, room: int) -> tuple[int, bytes]:
    unzip = zlib.decompressobj()
    text = unzip.decompress(data, room + 32)
    if unzip.unconsumed_tail:
        raise ValueError(f"more than {_MOST_BYTES >> 20} MiB")
    header = _HEADER.match(text)
    if header is None or len(text) - header.end() != int(header[2]):
        raise ValueError("an object is not whole")
    return _TYPES[header[1]], text[header.end() :]


def _packs(stores: tuple[str, ...]) -> Iterator[str]:
    for store in stores:
        for name in _names(f"{store}/pack", _PACK, stat.S_ISREG):
            yield f"{store}/pack/{name}"


def _names(folder: str, pattern: re.Pattern[str], is_kind: Callable[[int], bool]) -> list[str]:
    """Names of one kind in a folder; none if it is not there."""
    try:
        with scan_folder(folder) as entries:
            return sorted(
                one.name
                for one in entries
                if pattern.fullmatch(one.name) and is_kind(one.stat(follow_symlinks=False).st_mode)
            )
    except OSError:
        return []


def _pack(objects: Sequence[tuple[int, bytes]], *, is_sha256: bool) -> bytes:
    """A pack without deltas (gitformat-pack, version 2)."""
    parts = [b"PACK" + struct.pack(">II", 2, len(objects))]
    for kind, contents in objects:
        parts += (_entry_header(kind, len(contents)), zlib.compress(contents, 1))
    pack = b"".join(parts)
    name = "sha256" if is_sha256 else "sha1"
    return pack + hashlib.new(name, pack, usedforsecurity=False).digest()


def _entry_header(kind: int, size: int) -> bytes:
    """Type and size, four and then seven bits at a time."""
    first, size = kind << 4 | size & 15, size >> 4
    out = bytearray()
    while size:
        out.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    out.append(first)
    return bytes(out)
