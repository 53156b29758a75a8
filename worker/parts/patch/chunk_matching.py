"""Finds where a chunk belongs in a file, and the exact edits that follow. Pure.

A file is handled as lines that keep their line ends, so that line endings survive and the diff
follows from the edits alone: nothing is compared twice, whatever the size of the file.

Source: Codex's apply_patch (four passes, cursor, end-of-file anchor). Differences: a blank last
line of the file survives, a chunk never matches text before the chunk above it, and what a chunk
only names as context keeps the file's own bytes.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from swarm.mailbox.base.errors import SwarmError

from .parse import Chunk

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f"
_SPACES = "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_TYPOGRAPHY = str.maketrans(
    dict.fromkeys(_DASHES, "-")
    | dict.fromkeys(_SINGLE_QUOTES, "'")
    | dict.fromkeys(_DOUBLE_QUOTES, '"')
    | dict.fromkeys(_SPACES, " ")
)


class ChunkNotFound(SwarmError):
    """The file does not contain what the patch expects; the text is for the model."""


class LineEdit(NamedTuple):
    """Lines `start … start+removed` of the old file become `added` (each with its line end)."""

    start: int
    removed: int
    added: tuple[str, ...]


def split_lines(text: str) -> list[str]:
    """Split at `\\n` only; every line keeps its end, the last one may have none."""
    lines = text.split("\n")
    last = lines.pop()
    kept = [line + "\n" for line in lines]
    return [*kept, last] if last else kept


class LineIndex:
    """The lines of one file in the four readings, each made when it is first needed."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._readings: list[list[str]] = [[line.removesuffix("\n") for line in lines]]

    def __len__(self) -> int:
        return len(self._readings[0])

    def seek(self, pattern: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """The first index ≥ `start` where `pattern` matches, exactly if possible, else loosely.

        With `at_end` only the file's last lines are tried. An empty pattern matches at `start`.
        """
        if not pattern:
            return start
        if len(pattern) > len(self):
            return None
        last = len(self) - len(pattern)
        first = max(last, start) if at_end else start
        for reading, read in enumerate(_READINGS):
            found = _find(self._lines(reading), [read(line) for line in pattern], first, last)
            if found is not None:
                return found
        return None

    def end_of_text(self) -> int:
        """Where chunks without old lines go: after the last line, or before it if it is blank."""
        lines = self._readings[0]
        return len(lines) - 1 if lines and lines[-1] in ("", "\r") else len(lines)

    def _lines(self, reading: int) -> list[str]:
        while len(self._readings) <= reading:
            read = _READINGS[len(self._readings)]
            self._readings.append([read(line) for line in self._readings[0]])
        return self._readings[reading]


def locate_edits(text: str, chunks: Sequence[Chunk], path: str) -> tuple[LineEdit, ...]:
    """Locate every chunk in order; return minimal edits, sorted, none overlapping.

    A file whose last line had no newline gains one, unless a chunk says otherwise.

    Raises:
        ChunkNotFound: names `path` and the text that was not found.
    """
    lines = split_lines(text)
    index = LineIndex(lines)
    ends = _LineEnds(lines)
    edits: list[LineEdit] = []
    cursor = 0
    for chunk in chunks:
        start, cursor, body = _locate_chunk(chunk, index, cursor, path)
        edits.extend(_minimal_edits(body, start, lines, ends))
    if any(chunk.no_newline for chunk in chunks):
        return _in_order(_without_final_newline(edits, lines), path)
    return _in_order(_with_final_newline(edits, lines), path)


def apply_edits(text: str, edits: Sequence[LineEdit]) -> str:
    """The new text."""
    lines = split_lines(text)
    for edit in reversed(edits):
        lines[edit.start : edit.start + edit.removed] = edit.added
    return "".join(lines)


def _locate_chunk(
    chunk: Chunk, index: LineIndex, cursor: int, path: str
) -> tuple[int, int, Sequence[str]]:
    """Return where the chunk starts, the cursor after it, and its lines as matched."""
    if chunk.context is not None:
        found = index.seek([chunk.context], cursor)
        if found is None:
            raise ChunkNotFound(f"Failed to find context '{chunk.context}' in {path}")
        cursor = found + 1
    old = chunk.old_lines
    if not old:
        return index.end_of_text(), cursor, chunk.lines
    body: Sequence[str] = chunk.lines
    found = index.seek(old, cursor, at_end=chunk.end_of_file)
    if found is None and not old[-1]:
        old, body = old[:-1], _without_last_blank(body)
        found = index.seek(old, cursor, at_end=chunk.end_of_file)
    if found is None:
        wanted = "\n".join(chunk.old_lines)
        raise ChunkNotFound(f"Failed to find expected lines in {path}:\n{wanted}")
    return found, found + len(old), body


def _without_last_blank(body: Sequence[str]) -> list[str]:
    """Drop the last old line, which is blank, and the blank new line that stands for it."""
    kept = list(body)
    last_old = max(at for at, line in enumerate(kept) if line[0] != "+")
    if kept[last_old][0] == "-":
        del kept[last_old]
    else:
        kept[last_old] = "+"
    new = [at for at, line in enumerate(kept) if line[0] != "-"]
    if new and not kept[new[-1]][1:]:
        if kept[new[-1]][0] == "+":
            del kept[new[-1]]
        else:
            kept[new[-1]] = "-"
    return kept


class _LineEnds:
    """Chooses the line end of a new line: that of the line it replaces or follows."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._usual = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"

    def near(self, at: int) -> str:
        if 0 <= at < len(self._lines):
            line = self._lines[at]
            if line.endswith("\n"):
                return "\r\n" if line.endswith("\r\n") else "\n"
        return self._usual


def _minimal_edits(
    body: Sequence[str], start: int, lines: Sequence[str], ends: _LineEnds
) -> list[LineEdit]:
    """Turn a chunk into edits; its context lines stay as the file has them."""
    edits: list[LineEdit] = []
    at = edit_start = start
    added: list[str] = []

    def close() -> None:
        if at > edit_start or added:
            edits.append(LineEdit(edit_start, at - edit_start, tuple(added)))
            added.clear()

    for line in body:
        kind, text = line[0], line[1:]
        if kind == "+":
            added.append(text + ends.near(at - 1 if at > start else at))
            continue
        if kind == " ":
            close()
            edit_start = at + 1
        at += 1
    close()
    return edits


def _with_final_newline(edits: list[LineEdit], lines: Sequence[str]) -> list[LineEdit]:
    if not lines or lines[-1].endswith("\n"):
        return edits
    last = len(lines) - 1
    if any(edit.start <= last < edit.start + edit.removed for edit in edits):
        return edits
    ended = LineEdit(last, 1, (lines[-1] + _LineEnds(lines).near(last),))
    return [*edits, ended]


def _without_final_newline(edits: list[LineEdit], lines: Sequence[str]) -> list[LineEdit]:
    """The edit that reaches the end of the file leaves it without a newline.

    A carriage return that stands in the new text itself is part of it.
    """
    ends, count = _LineEnds(lines), len(lines)
    newline = "\r\n" if "\r\n" in (ends.near(count - 1), ends.near(count)) else "\n"
    found: list[LineEdit] = []
    for edit in edits:
        if edit.added and edit.start + edit.removed == len(lines):
            last = edit.added[-1].removesuffix(newline).removesuffix("\n")
            edit = edit._replace(added=(*edit.added[:-1], *([last] if last else [])))
        found.append(edit)
    ended = [edit for edit in found if edit.start == len(lines) and not edit.removed]
    return _with_final_newline(found, lines) if ended else found


def _in_order(edits: list[LineEdit], path: str) -> tuple[LineEdit, ...]:
    edits = sorted(edits, key=lambda edit: (edit.start, edit.removed > 0))
    for one, other in pairwise(edits):
        if one.start + one.removed > other.start:
            raise ChunkNotFound(f"Two chunks of the patch change the same lines of {path}")
    return tuple(edits)


def _find(lines: list[str], pattern: list[str], first: int, last: int) -> int | None:
    at = first
    while at <= last:
        try:
            at = lines.index(pattern[0], at, last + 1)
        except ValueError:
            return None
        if lines[at : at + len(pattern)] == pattern:
            return at
        at += 1
    return None


def _as_is(line: str) -> str:
    return line


def _in_plain_type(line: str) -> str:
    return line.strip().translate(_TYPOGRAPHY)


_READINGS: tuple[Callable[[str], str], ...] = (_as_is, str.rstrip, str.strip, _in_plain_type)
