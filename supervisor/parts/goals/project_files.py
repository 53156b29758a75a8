"""What is looked at in a project for a goal: a digest of all files, and the contents of its check.

Agents write these files, so no link is followed and nothing but regular files is read; all of it is
bounded. Blocks: call it in a thread.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_whole, scan_folder

from ..copies.tree_survey import LEFT_OUT_NAMES, LIVE_NAMES
from .check_words import is_part_of_check, named_paths, patterns_for, words_of

_MOST_ENTRIES = 100_000
_MOST_CHECK_FILES = 2_000
_FILE_BYTES = 4 << 20
_SKIPPED = LEFT_OUT_NAMES | LIVE_NAMES | {".git"}


class Entry(NamedTuple):
    """One file or link of the project."""

    path: str
    facts: os.stat_result


class ProjectFiles(NamedTuple):
    """`tree` "": there are too many files to tell."""

    tree: str
    checks: dict[str, str]  # path → digest of what the check consists of


def look_at_project(
    cwd: str, commands: tuple[str, ...], kept: Iterable[str] = (), *, search: str = ""
) -> ProjectFiles:
    """The project's files now.

    Args:
        cwd: The project.
        commands: Of the check.
        kept: Further paths that belong to it.
        search: The `PATH` by which its programs are found: one may lie in the project.
    """
    root = os.path.realpath(cwd)
    patterns = patterns_for(commands)
    named = _named(root, commands, (*kept, *_programs(root, commands, search)))
    hasher, checks, count = sha256(), dict.fromkeys(named.missing, ""), 0
    for path in named.there:  # also where the walk does not come
        with suppress(OSError):
            facts = os.stat(path, follow_symlinks=False)  # noqa: PTH116
            if not S_ISDIR(facts.st_mode):
                checks[os.path.relpath(path, root)] = _digest(Entry(path, facts))
    for entry in _walk(root):
        count += 1
        if count > _MOST_ENTRIES:
            break
        facts = entry.facts
        stated = f"{entry.path}\0{facts.st_mode}\0{facts.st_size}\0{facts.st_mtime_ns}\0"
        hasher.update(stated.encode("utf-8", "surrogateescape"))
        name = entry.path.rpartition("/")[2]
        is_named = any(is_within(entry.path, one) for one in named.there)
        if (is_named or is_part_of_check(name, patterns)) and len(checks) < _MOST_CHECK_FILES:
            checks[os.path.relpath(entry.path, root)] = _digest(entry)
    return ProjectFiles("" if count > _MOST_ENTRIES else hasher.hexdigest(), checks)


def changed_files(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    """Names whose contents differ, also of files that came or went."""
    names = before.keys() | after.keys()
    return tuple(sorted(one for one in names if before.get(one, "") != after.get(one, "")))


def _programs(root: str, commands: tuple[str, ...], search: str) -> Iterator[str]:
    """Files of the project that the words of the commands would start."""
    folders = [one for one in search.split(":") if is_within(os.path.realpath(one or "."), root)]
    for word in (word for command in commands for word in words_of(command)):
        if "/" not in word and "\0" not in word:
            for folder in folders:
                if os.path.lexists(path := os.path.join(folder, word)):  # noqa: PTH118
                    yield path


class _Named(NamedTuple):
    there: tuple[str, ...]  # canonical
    missing: tuple[str, ...]  # relative to the project


def _named(root: str, commands: tuple[str, ...], kept: Iterable[str]) -> _Named:
    """The paths below the project that the commands name, also relative to a folder they name."""
    words = named_paths(commands)
    bases = [root, *(path for one in words if os.path.isdir(path := os.path.join(root, one)))]  # noqa: PTH112, PTH118
    there = {os.path.normpath(one): None for one in kept}
    missing: dict[str, None] = {}
    for word in words:
        found = [path for base in bases if os.path.lexists(path := os.path.join(base, word))]  # noqa: PTH118
        if not found and word.startswith("./"):
            missing[os.path.normpath(word)] = None
        there |= {os.path.normpath(one): None for one in found}
    # A command that names the whole project (`pytest .`) is judged by names alone.
    inside = [one for one in there if one != root and is_within(one, root)]
    return _Named(tuple(inside), tuple(one for one in missing if not one.startswith("..")))


def _walk(root: str) -> Iterator[Entry]:
    """In the order of the names; folders of caches and of installed packages are left out."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        found: list[tuple[str, os.stat_result]] = []
        with suppress(OSError), scan_folder(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
                if len(found) > _MOST_ENTRIES:
                    break
        below: list[str] = []
        for name, facts in sorted(found):
            path = f"{folder.rstrip('/')}/{name}"
            if not S_ISDIR(facts.st_mode):
                yield Entry(path, facts)
            elif name not in _SKIPPED:
                below.append(path)
        waiting += reversed(below)


def _digest(entry: Entry) -> str:
    """Of the contents; of a link, a large or an unreadable file, of what is known about it."""
    facts = entry.facts
    if S_ISREG(facts.st_mode) and facts.st_size <= _FILE_BYTES:
        with suppress(OSError):
            data = read_whole(open_canonical(entry.path, READ_FLAGS), most_bytes=_FILE_BYTES)
            return sha256(data).hexdigest()
    return f"{facts.st_mode:o} {facts.st_size} {facts.st_mtime_ns}"
