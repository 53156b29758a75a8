"""What a server in a project consisted of when it last had its rights, so that a change is seen.

While a run lives, what it starts with rights of its own is closed to its agents. Between runs it is
not: a run that knows nothing of the server may write there. So the files are compared at each
start. The first start of a command line is its beginning; later ones need a person's word.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.protocol.values.base import Value

from .config.atomic_replace import locked_folder, replace_file
from .config.file_reading import read_bounded

MOST_FILES = 100_000
_STORE_BYTES = 64 << 20
_HASHED_FILE_BYTES = 8 << 20  # a larger file counts by its size, inode and time of change
_HASHED_BYTES = 256 << 20  # so do files after so many bytes
_MOST_NAMED = 5


class PinNotSaved(SwarmError):
    """Nothing was written; the server stays without rights."""


class PinnedFile(Value):
    """One file or link. Nobody can set `ctime_ns`, so content is read only where it differs."""

    size: int
    inode: int
    ctime_ns: int
    digest: str = ""  # of the content, or of a link's target; "" = too large to be read


class PinnedProgram(Value):
    """All files of a server, by absolute path. `command`: for a person who reads the file."""

    command: tuple[str, ...] = ()
    files: dict[str, PinnedFile] = {}


class ProgramChanges(NamedTuple):
    """Absolute paths. `problem`: why nothing could be compared; "" if it was."""

    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    problem: str = ""
    now: PinnedProgram | None = None  # what was read; None: too much

    def __str__(self) -> str:
        words = [f"{word}: {_named(paths)}" for word, paths in self._lists() if paths]
        return "; ".join(filter(None, (self.problem, *words)))

    def lines(self) -> tuple[str, ...]:
        """One line for each file, so that what a yes covers is shown whole."""
        each = tuple(f"{word}: {path}" for word, paths in self._lists() for path in paths)
        return tuple(filter(None, (self.problem, *each)))

    def _lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return (("changed", self.changed), ("new", self.new), ("gone", self.gone))


class ComparedProgram(NamedTuple):
    """A command line, and what it consists of in places where agents may write."""

    words: tuple[str, ...]  # the first one is an absolute path
    folder: str  # in which it starts
    parts: tuple[str, ...]  # absolute paths of files and folders


def check_program(store: Path, program: ComparedProgram) -> ProgramChanges | None:
    """What differs from the program's last start with rights; None if nothing does.

    A program that was never started is noted, and so is what was only touched. Reads all files
    once, later only those that were changed. Blocks.

    Args:
        store: The folder of what programs consisted of. Where nothing can be written each start is
            a first one.
    """
    path = _pin_file(store, program)
    try:
        known, problem = _read_pin(path), ""
    except (UsageError, msgspec.DecodeError) as error:
        known, problem = PinnedProgram(), f"{path} cannot be read ({error})"
    now = _read_program(program, {} if known is None else known.files)
    if now is None:
        return ProgramChanges(problem=f"it has more than {MOST_FILES:,} files to compare")
    found = None if known is None else _compare(known.files, now)
    if problem:
        return ProgramChanges(problem=problem, now=now)
    if found is None and now != known:
        with suppress(PinNotSaved):
            _save(path, now)
    return found


def _read_pin(path: Path) -> PinnedProgram | None:
    try:
        data = read_bounded(path, limit_bytes=_STORE_BYTES)
    except FileNotFoundError:
        return None
    return msgspec.json.decode(data, type=PinnedProgram)


def describe_changes(server: str, changes: ProgramChanges) -> str:
    """A clause for people: what is different, and how to go on."""
    return (
        f"what it runs is not what ran before ({changes}). If that is right, say so with "
        f"`swarm mcp trust {server}`"
    )


def accept_program(store: Path, program: ComparedProgram, changes: ProgramChanges) -> None:
    """Note what was read when these changes were found; a person has said yes to them.

    Raises PinNotSaved.
    """
    if changes.now is None:
        raise PinNotSaved(
            f"`{program.words[0]}` lies among more than {MOST_FILES:,} files, too many to be "
            "compared; keep it in a folder of its own, or where agents do not write"
        )
    _save(_pin_file(store, program), changes.now)


def _pin_file(store: Path, program: ComparedProgram) -> Path:
    told = (os.path.realpath(program.folder), *program.words)
    return store / f"{hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:32]}.json"


def _save(path: Path, program: PinnedProgram) -> None:
    try:
        with locked_folder(path.parent):
            replace_file(path, msgspec.json.encode(program))
    except OSError as error:
        raise PinNotSaved(f"{path} cannot be written: {error.strerror}") from error


def _compare(known: dict[str, PinnedFile], program: PinnedProgram) -> ProgramChanges | None:
    files = program.files
    changed = tuple(one for one in files if one in known and not _same(known[one], files[one]))
    new = tuple(one for one in files if one not in known)
    gone = tuple(one for one in known if one not in files)
    if not (changed or new or gone):
        return None
    return ProgramChanges(changed, new, gone, now=program)


def _same(before: PinnedFile, now: PinnedFile) -> bool:
    """By content, where both were read."""
    return before == now or bool(before.digest and before.digest == now.digest)


def _read_program(program: ComparedProgram, known: dict[str, PinnedFile]) -> PinnedProgram | None:
    """None: there are too many files."""
    files: dict[str, PinnedFile] = {}
    left = _HASHED_BYTES
    for path in _files(program.parts):
        if len(files) >= MOST_FILES:
            return None
        one = _read_file(path, known.get(path), left)
        if one is not None:
            files[path] = one
            left -= one.size if one.digest else 0
    return PinnedProgram(command=program.words, files=files)


def _files(parts: Iterable[str]) -> Iterator[str]:
    """Sorted, so that the same files are read each time; links are not followed."""
    for part in sorted(set(parts)):
        if os.path.islink(part) or not os.path.isdir(part):  # noqa: PTH112, PTH114 - texts
            yield part
            continue
        for folder, names, found in os.walk(part):
            linked = [one for one in names if os.path.islink(f"{folder}/{one}")]  # noqa: PTH114
            names[:] = sorted(set(names) - set(linked))
            yield from (f"{folder}/{one}" for one in sorted((*found, *linked)))


def _read_file(path: str, known: PinnedFile | None, left: int) -> PinnedFile | None:
    """None: it is no file and no link, or cannot be read, so that it is gone."""
    try:
        facts = os.lstat(path)
        one = PinnedFile(size=facts.st_size, inode=facts.st_ino, ctime_ns=facts.st_ctime_ns)
        if known is not None and one == msgspec.structs.replace(known, digest=""):
            return known
        if stat.S_ISLNK(facts.st_mode):
            content = os.fsencode(os.readlink(path))  # noqa: PTH115 - no Path is needed
        elif not stat.S_ISREG(facts.st_mode):
            return None
        elif facts.st_size > min(_HASHED_FILE_BYTES, left):
            return one
        else:
            content = read_bounded(Path(path), limit_bytes=_HASHED_FILE_BYTES)
    except (OSError, UsageError):
        return None
    return msgspec.structs.replace(one, digest=hashlib.sha256(content).hexdigest())


def _named(paths: tuple[str, ...]) -> str:
    more = len(paths) - _MOST_NAMED
    return ", ".join(paths[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
