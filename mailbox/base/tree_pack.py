"""A folder tree as messages: files, folders, links, an overlay's marks; whole, then changes.

`tree_unpack.py` writes them down, on another machine for example. Blocks.
"""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from .errors import SwarmError
from .overlay_marks import is_opaque, is_whiteout
from .safe_open import FOLDER_FLAGS, READ_FLAGS, open_canonical

MAX_ENTRIES = 400_000
MAX_BYTES = 8 << 30  # of contents, over all messages of one tree
MAX_LAYER_BYTES = 2 << 30  # of what one agent has changed in one folder
_PIECE_BYTES = 512 << 10  # of contents in one message
_MOST_IN_MESSAGE = 1_000  # entries
MAX_NAME_BYTES, MAX_DEPTH = 4096, 128

EntryKind = Literal["folder", "file", "link", "whiteout", "gone"]


class PackedEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry, before its contents. Paths are bytes below the folder; `""` is the folder."""

    kind: EntryKind
    name: bytes
    mode: int = 0
    mtime_ns: int = 0
    size: int = 0
    target: bytes = b""
    opaque: bool = False  # an overlay shows nothing of the layer below in this folder


class PackedPart(msgspec.Struct, frozen=True, array_like=True):
    """A message: contents that an earlier message left out; entries; the contents of their files.

    All are as long as the entries say. Only those of the last file may go on in the next message.
    """

    entries: tuple[PackedEntry, ...] = ()
    contents: bytes = b""


class TreeRefused(SwarmError):
    """The tree cannot be taken: the message says what is wrong with it."""


class _Facts(NamedTuple):
    """By these an entry is known to be the same as before."""

    kind: str
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


_Found = dict[bytes, tuple[PackedEntry, _Facts, str]]  # with paths; folders before their contents
_encode = msgspec.msgpack.Encoder().encode
decode_part = msgspec.msgpack.Decoder(PackedPart).decode


class TreePacker:
    """Packs one folder again and again, each time only what has changed since.

    Args:
        root: A canonical folder. What cannot be read, and sockets and devices, are left out.
        keeps_gone: What is gone here stays there.
        left_out: Paths below the folder that are not walked.
        most_bytes: Of all files together that are not the base's; with more nothing is packed.
    """

    def __init__(
        self,
        root: str,
        *,
        keeps_gone: bool = False,
        left_out: Collection[str] = (),
        most_bytes: int = MAX_BYTES,
    ) -> None:
        self._most_bytes = most_bytes
        self._root, self._keeps_gone = root, keeps_gone
        self._left_out = frozenset(map(os.fsencode, left_out))
        self._sent: dict[bytes, _Facts] = {}
        self._base: dict[bytes, _Facts] | None = None
        self._known: set[bytes] = set()  # folders that the receiver has over the base

    def pack(self) -> Iterator[bytes]:
        """The messages; none if nothing has changed. Raises OSError; TreeRefused for a huge tree,
        before the first message.

        What was given counts as sent once the last message was taken.
        """
        found = {entry.name: (entry, facts, path) for entry, facts, path in self._walk()}
        base = self._base or {}
        own = (entry.size for name, (entry, facts, _) in found.items() if base.get(name) != facts)
        if sum(own) > self._most_bytes:
            most = f"{self._most_bytes / (1 << 30):g} GiB"
            raise TreeRefused(f"the files in {self._root} are larger than {most} together")
        waiting: list[PackedEntry] = []
        contents = bytearray()
        for entry, path in self._changes(found):
            waiting.append(entry)
            if entry.kind == "file" and entry.size:
                for piece in _pieces(path, entry.size):
                    contents += piece
                    if len(contents) >= _PIECE_BYTES:
                        yield _encode(PackedPart(tuple(waiting), bytes(contents)))
                        waiting.clear()
                        contents.clear()
            if len(waiting) >= _MOST_IN_MESSAGE:
                yield _encode(PackedPart(tuple(waiting), bytes(contents)))
                waiting.clear()
                contents.clear()
        if waiting or contents:
            yield _encode(PackedPart(tuple(waiting), bytes(contents)))
        self._sent = {name: facts for name, (_, facts, _) in found.items()}

    def skip_present(self) -> None:
        """Take what is there now for sent. Raises OSError, TreeRefused."""
        self._sent = {entry.name: facts for entry, facts, _ in self._walk()}

    def follow(self, earlier: str) -> None:
        """What another folder has of it counts as sent: names that are the very same file in both.

        Raises OSError, TreeRefused.
        """
        self._sent = {entry.name: facts for entry, facts, _ in TreePacker(earlier)._walk()}

    def take_as_base(self) -> None:
        """What is there now is the base, and the receiver gets a layer over it: what differs.

        A name of the base that is gone becomes a whiteout, a folder that was made anew opaque.
        Raises OSError, TreeRefused.
        """
        self.skip_present()
        self._base, self._known = self._sent, {b""}

    def _changes(self, found: _Found) -> Iterator[tuple[PackedEntry, str]]:
        """Entries with their paths; a folder before what lies in it."""
        changed, anew = self._changed_names(found)
        gone = [] if self._keeps_gone else self._gone_names(found)
        if self._base is not None:
            above = {one for name in (*changed, *gone) for one in _folders_above(name)}
            changed |= above - self._known
            self._known |= above
        for name, (entry, _, path) in found.items():
            if name in changed:
                yield (msgspec.structs.replace(entry, opaque=True) if name in anew else entry), path
        for name in gone:
            is_below = self._base is not None and name in self._base
            yield PackedEntry("whiteout" if is_below else "gone", name), ""

    def _changed_names(self, found: _Found) -> tuple[set[bytes], set[bytes]]:
        """All that changed; and folders of the base that are others than those by now."""
        changed: set[bytes] = set()
        anew: set[bytes] = set()
        for name, (entry, facts, _) in found.items():
            before = self._sent.get(name)
            if before != facts:
                changed.add(name)
            if self._base is None or not name:
                continue
            if name.rpartition(b"/")[0] in anew:
                changed.add(name)  # nothing of the base shows there any more
                if entry.kind == "folder":
                    anew.add(name)
            elif entry.kind == "folder" and name in self._base and _is_other(facts, before):
                anew.add(name)
        return changed, anew

    def _gone_names(self, found: _Found) -> list[bytes]:
        """What is gone from folders that are still there; the others go as wholes."""
        gone: list[bytes] = []
        for name in self._sent.keys() - found.keys():
            above = found.get(name.rpartition(b"/")[0])
            if above is not None and above[0].kind == "folder":
                gone.append(name)
        return sorted(gone)

    def _walk(self) -> Iterator[tuple[PackedEntry, _Facts, str]]:
        """Everything, a folder before what lies in it: entry, facts, path."""
        yield _top_of(self._root)
        folders, count = [(b"", self._root)], 0
        while folders:
            above, path = folders.pop()
            if above.count(b"/") >= MAX_DEPTH:
                continue
            try:
                inside = list(_scan(above, path))
            except OSError:
                continue  # it is gone, closed to us, or a link by now
            for entry, facts in inside:
                if entry.name in self._left_out or len(entry.name) > MAX_NAME_BYTES:
                    continue
                count += 1
                if count > MAX_ENTRIES:
                    raise TreeRefused(f"{self._root} holds more than {MAX_ENTRIES:,} entries")
                below = f"{self._root}/{os.fsdecode(entry.name)}"
                yield entry, _facts(entry.kind, facts), below
                if entry.kind == "folder":
                    folders.append((entry.name, below))


def layer_packer(root: str, *, left_out: Collection[str] = ()) -> TreePacker:
    """For what an agent writes: it may write more than anybody wants to carry."""
    return TreePacker(root, left_out=left_out, most_bytes=MAX_LAYER_BYTES)


def _top_of(root: str) -> tuple[PackedEntry, _Facts, str]:
    fd = open_canonical(root, FOLDER_FLAGS)
    try:
        facts = os.fstat(fd)
        return _entry(b"", facts, fd, "."), _facts("folder", facts), root
    finally:
        os.close(fd)


def _scan(above: bytes, path: str) -> Iterator[tuple[PackedEntry, os.stat_result]]:
    """What one folder holds, through no link at any step. Raises OSError."""
    fd = open_canonical(path, FOLDER_FLAGS)
    try:
        with os.scandir(fd) as inside:
            found = sorted(inside, key=lambda one: one.name)
        for one in found:
            raw = os.fsencode(one.name)
            with suppress(OSError):  # it is gone by now
                facts = one.stat(follow_symlinks=False)
                entry = _entry(above + b"/" + raw if above else raw, facts, fd, one.name)
                if entry.kind != "gone":
                    yield entry, facts
    finally:
        os.close(fd)


def _entry(rel: bytes, facts: os.stat_result, fd: int, name: str) -> PackedEntry:
    """`name`: in the folder that is open. Raises OSError."""
    mode, kind = stat.S_IMODE(facts.st_mode), _kind_of(facts)
    match kind:
        case "file":
            return PackedEntry(kind, rel, mode, facts.st_mtime_ns, facts.st_size)
        case "folder":
            return PackedEntry(kind, rel, mode, opaque=is_opaque(f"/proc/self/fd/{fd}/{name}"))
        case "link":
            return PackedEntry(kind, rel, target=os.fsencode(os.readlink(name, dir_fd=fd)))
        case _:
            return PackedEntry(kind, rel)


def _folders_above(name: bytes) -> Iterator[bytes]:
    """Without the top."""
    while name := name.rpartition(b"/")[0]:
        yield name


def _is_other(facts: _Facts, before: _Facts | None) -> bool:
    return before is None or (before.kind, before.inode) != (facts.kind, facts.inode)


def _pieces(path: str, size: int) -> Iterator[bytes]:
    """The contents of a file, exactly of this size."""
    try:
        fd = open_canonical(path, READ_FLAGS)
    except OSError:
        fd = -1
    left = size
    try:
        while left:
            piece = b"" if fd < 0 else os.read(fd, min(_PIECE_BYTES, left))
            piece = piece or bytes(min(_PIECE_BYTES, left))  # it has shrunk since it was listed
            left -= len(piece)
            yield piece
    finally:
        if fd >= 0:
            os.close(fd)


def _kind_of(facts: os.stat_result) -> EntryKind:
    mode = facts.st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    return "whiteout" if is_whiteout(facts) else "gone"


def _facts(kind: str, found: os.stat_result) -> _Facts:
    if kind == "folder":  # its times change with what lies in it
        return _Facts(kind, found.st_mode, 0, 0, 0, found.st_ino)
    return _Facts(
        kind, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
    )
