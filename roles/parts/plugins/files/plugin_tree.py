"""The files of a plugin: bounded reading of a folder, bounded writing of a new one, their hash.

What comes from outside is hostile. Only regular files with plain names are taken, never through a
link; two names that differ in nothing but case are refused.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.safe_open import FOLDER_FLAGS, READ_FLAGS, open_beneath, read_start
from swarm.mailbox.protocol.values.base import Value

MAX_FILES = 4_000
MAX_BYTES = 64 << 20  # of all files together
MAX_FILE_BYTES = 16 << 20
_MAX_LEVELS = 24
_MAX_ENTRIES = 20_000  # files, folders and what is left out
_MAX_NAME_BYTES = 1024
_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__"})


class TreeFile(Value):
    """One file; `name` is relative to the plugin's folder, with `/`."""

    name: str
    data: bytes
    executable: bool = False


class LeftOut(Value):
    """An entry that is not taken, and why."""

    name: str
    why: str


def read_folder_tree(folder: Path) -> Iterator[TreeFile | LeftOut]:
    """All regular files below a folder, sorted; links and special files are left out.

    Raises UsageError for too many entries or levels, OSError if something cannot be read.
    """
    top = os.open(os.path.realpath(folder), FOLDER_FLAGS)
    try:
        for name, facts in _walk(top):
            if not stat.S_ISREG(facts.st_mode):
                yield LeftOut(name=name, why="it is a link, or no regular file")
                continue
            if facts.st_size > MAX_FILE_BYTES:
                raise UsageError(f"{folder / name}: over {MAX_FILE_BYTES >> 20} MiB")
            data = read_start(open_beneath(top, name, READ_FLAGS), most_bytes=MAX_FILE_BYTES + 1)
            yield TreeFile(name=name, data=data, executable=bool(facts.st_mode & 0o100))
    finally:
        os.close(top)


def tree_fingerprint(folder: Path) -> str:
    """A hash of names, sizes, times and inodes: equal as long as nobody has changed a file.

    The change time cannot be set by a program. Raises UsageError, OSError.
    """
    hasher = hashlib.sha256()
    top = os.open(os.path.realpath(folder), FOLDER_FLAGS)
    try:
        for name, facts in _walk(top):
            numbers = (
                facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino
            )  # fmt: skip
            hasher.update(os.fsencode(f"{name}\0{numbers}\n"))
    finally:
        os.close(top)
    return hasher.hexdigest()


def tree_digest(folder: Path) -> str:
    """The hash of a plugin's whole content. Raises UsageError, OSError."""
    digest = TreeDigest()
    for one in read_folder_tree(folder):
        if isinstance(one, TreeFile):
            digest.add(one)
    return digest.hexdigest()


class TreeDigest:
    """Hashes files in any order; `files` maps each name to its own hash."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def add(self, one: TreeFile) -> None:
        mark = "x" if one.executable else "-"
        self.files[one.name] = mark + hashlib.sha256(one.data).hexdigest()

    def hexdigest(self) -> str:
        hasher = hashlib.sha256(b"swarm plugin 1\0")
        for name, content in sorted(self.files.items()):
            hasher.update(os.fsencode(f"{name}\0{content}\n"))
        return hasher.hexdigest()


class TreeWriter:
    """Writes files into a new folder, within the bounds; the caller removes it after an error."""

    def __init__(self, folder: Path) -> None:
        """`folder` must not exist. Raises OSError."""
        make_own_folders(folder, exist_ok=False)
        self._folder, self._bytes = folder, 0
        self._folded: dict[str, str] = {}
        self.digest = TreeDigest()

    def write(self, one: TreeFile) -> None:
        """Raises UsageError: the name may not stand, or there is too much. Raises OSError."""
        check_file_name(one.name)
        self._check_case(one.name)
        self._bytes += len(one.data)
        if len(self.digest.files) >= MAX_FILES:
            raise UsageError(f"a plugin may hold {MAX_FILES:,} files; this one has more")
        if self._bytes > MAX_BYTES or len(one.data) > MAX_FILE_BYTES:
            raise UsageError(
                f"a plugin may hold {MAX_BYTES >> 20} MiB, {MAX_FILE_BYTES >> 20} MiB a file; this "
                f"one has more: {one.name[:200]!r}"
            )
        path = self._folder / one.name
        make_own_folders(path.parent)
        mode = 0o700 if one.executable else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, mode), "wb") as stream:
            stream.write(one.data)
        self.digest.add(one)

    def _check_case(self, name: str) -> None:
        """Every folder and file has one spelling. Raises UsageError."""
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            spelled = "/".join(parts[:end])
            known = self._folded.setdefault(spelled.casefold(), spelled)
            if known != spelled or (end == len(parts) and spelled in self.digest.files):
                raise UsageError(f"the names {known[:200]!r} and {spelled[:200]!r} are the same")


def check_file_name(name: str) -> None:
    """Raises UsageError unless it is a relative path of plain parts that leads nowhere else."""
    parts = name.split("/")
    is_plain = (
        0 < len(os.fsencode(name)) <= _MAX_NAME_BYTES
        and "\\" not in name
        and name.isprintable()
        and len(parts) <= _MAX_LEVELS
        and not any(part in ("", ".", "..") or len(os.fsencode(part)) > 255 for part in parts)
    )
    if not is_plain:
        raise UsageError(f"the name {name[:200]!r} is absolute, leads out, or is not a plain name")


def _walk(top: int) -> Iterator[tuple[str, os.stat_result]]:
    """(name, facts) of everything but folders, sorted in each; a link's facts are its own."""
    count = 0
    waiting = [""]
    while waiting:
        name = waiting.pop()
        if name.count("/") >= _MAX_LEVELS:
            raise UsageError(f"folders are nested more than {_MAX_LEVELS} deep: {name[:200]!r}")
        folder = open_beneath(top, name or ".", FOLDER_FLAGS)
        try:
            with os.scandir(folder) as entries:
                found = sorted(
                    (entry.name, entry.stat(follow_symlinks=False))
                    for entry in entries
                    if entry.name not in _LEFT_OUT
                )
        finally:
            os.close(folder)
        count += len(found)
        if count > _MAX_ENTRIES:
            raise UsageError(f"a plugin may hold {MAX_FILES:,} files; this folder has far more")
        for inner, facts in found:
            path = f"{name}/{inner}" if name else inner
            if stat.S_ISDIR(facts.st_mode):
                waiting.append(path)
            else:
                yield path, facts
