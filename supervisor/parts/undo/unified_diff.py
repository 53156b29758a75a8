"""Renders agents' changes as a unified diff in git's format, or as line counts.

It shows what the store holds, not what is on the disk now. A file that is not text, too large or
without a copy is named but not shown. Blocks: it reads the store.
"""

import difflib
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .content_store import UNKNOWN, ContentStore, FileEntry
from .net_changes import NetChange

MAX_SHOWN_BYTES = 2 * 1024 * 1024  # of one side
MAX_LINES = 20_000  # of one side: comparison time grows faster than the number of lines
_LOOK_BYTES = 8_000  # a zero byte among these means binary, as in git
_NO_NEWLINE = "\\ No newline at end of file"


class DiffStat(NamedTuple):
    """One line of `--stat`. `words` replace the counts."""

    path: str
    added: int = 0
    removed: int = 0
    words: str = ""


class _NotShown(NamedTuple):
    """Stands in for a text that is not shown. `why`: "" if it is not text."""

    why: str = ""


def diff_lines(
    edit: NetChange, store: ContentStore, cwd: str, *, most_compared: int = MAX_LINES
) -> Iterator[str]:
    """The part of a diff for one path, line by line, without line ends.

    A file of more than `most_compared` lines before or after is named but not shown, unless one
    side is absent.
    """
    name = shown_name(edit.path, cwd)
    before, after = edit.before, edit.after
    if after is None:
        yield f"diff --git a/{name} b/{name}"
        yield f"{name}: what the command left was not looked at"
        return
    if edit.is_folder:
        yield from _folder_lines(name, before, after)
        return
    yield f"diff --git a/{name} b/{name}"
    yield from _mode_lines(before, after)
    if before.sha256 == after.sha256 and before.target == after.target and after.sha256 != UNKNOWN:
        return  # only the mode changed
    is_one_sided = "absent" in (before.kind, after.kind)
    most_lines = MAX_LINES if is_one_sided else most_compared
    old, new = _text_of(before, store, most_lines), _text_of(after, store, most_lines)
    left = f"a/{name}" if before.kind != "absent" else "/dev/null"
    right = f"b/{name}" if after.kind != "absent" else "/dev/null"
    if isinstance(old, _NotShown) or isinstance(new, _NotShown):
        reasons = [one.why for one in (old, new) if isinstance(one, _NotShown) and one.why]
        why = f" ({reasons[0]})" if reasons else ""
        yield f"Binary files {left} and {right} differ{why}"
        return
    yield from _hunks(old, new, left, right)


def count_diff(edit: NetChange, store: ContentStore, cwd: str) -> DiffStat:
    """How many lines were added and removed."""
    name = shown_name(edit.path, cwd)
    before, after = edit.before, edit.after
    if after is None:
        return DiffStat(name, words="not looked at")
    if edit.is_folder:
        return DiffStat(name + "/", words="new folder" if after.kind == "folder" else "gone")
    old, new = _text_of(before, store, MAX_LINES), _text_of(after, store, MAX_LINES)
    if isinstance(old, _NotShown) or isinstance(new, _NotShown):
        return DiffStat(name, words=f"Bin {before.size} -> {after.size} bytes")
    lines = list(_hunks(old, new, "a", "b"))[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    words = "" if added or removed else f"mode {before.mode:o} -> {after.mode:o}"
    return DiffStat(name, added, removed, words)


def shown_name(path: str, cwd: str) -> str:
    """The path relative to `cwd` if within it, else without leading slash; made printable."""
    short = path.removeprefix(cwd.rstrip("/") + "/").lstrip("/")
    if short.isprintable():
        return short
    return short.encode("unicode_escape", "surrogateescape").decode()


def _folder_lines(name: str, before: FileEntry, after: FileEntry) -> Iterator[str]:
    if before.kind == "absent":
        yield f"new folder {name}/"
    elif after.kind == "absent":
        yield f"deleted folder {name}/"
    else:
        yield f"{name}: {before.kind} became a {after.kind}"


def _mode_lines(before: FileEntry, after: FileEntry) -> Iterator[str]:
    old, new = _git_mode(before), _git_mode(after)
    if before.kind == "absent":
        yield f"new file mode {new}"
    elif after.kind == "absent":
        yield f"deleted file mode {old}"
    elif old != new:
        yield f"old mode {old}"
        yield f"new mode {new}"


def _git_mode(entry: FileEntry) -> str:
    return "120000" if entry.kind == "link" else f"100{entry.mode & 0o777:o}"


def _text_of(entry: FileEntry, store: ContentStore, most_lines: int) -> str | _NotShown:
    if entry.kind == "absent":
        return ""
    if entry.kind == "link":
        return entry.target
    if entry.sha256 == UNKNOWN:
        return _NotShown("no copy was kept")
    if entry.size > MAX_SHOWN_BYTES:
        return _NotShown("too large to show")
    try:
        source = store.open(entry.sha256)
    except OSError:
        return _NotShown("its copy is gone")
    with os.fdopen(source, "rb") as file:
        data = file.read(MAX_SHOWN_BYTES + 1)
    if b"\0" in data[:_LOOK_BYTES]:
        return _NotShown()
    if data.count(b"\n") > most_lines:
        return _NotShown(f"more than {most_lines:,} lines")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _NotShown()


def _hunks(old: str, new: str, left: str, right: str) -> Iterator[str]:
    before, after = _split(old), _split(new)
    for line in difflib.unified_diff(before, after, left, right, lineterm="\n"):
        if line.endswith("\n"):
            yield line[:-1]
        else:
            yield line
            yield _NO_NEWLINE


def _split(text: str) -> Sequence[str]:
    """Lines with their ends; only a line feed ends a line, as everywhere in a diff."""
    parts = text.split("\n")
    last = parts.pop()
    return [f"{part}\n" for part in parts] + ([last] if last else [])
