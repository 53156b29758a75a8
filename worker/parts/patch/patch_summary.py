"""Describes what a patch did, in words and as a diff. No I/O.

Diffs are made from the known edits, so their cost grows with the change and not with the file.
"""

from collections.abc import Iterator, Sequence

from swarm.mailbox.protocol.values.base import Value

from .chunk_matching import LineEdit, split_lines

CONTEXT_LINES = 1
NO_NEWLINE = "\\ No newline at end of file\n"
NOTHING_MODIFIED = "No files were modified."


class HunkResult(Value):
    """One hunk by its letter (A, M, D) and the path as the patch spells it."""

    letter: str
    path: str


def render_success(outcomes: Sequence[HunkResult]) -> str:
    """The text on stdout: added first, then modified, then deleted."""
    lines = ["Success. Updated the following files:", *list_outcomes(outcomes)]
    return "\n".join([*lines, ""])


def list_outcomes(outcomes: Sequence[HunkResult]) -> list[str]:
    """`A path`, `M path`, `D path`, in this order of letters."""
    ordered = sorted(outcomes, key=lambda outcome: "AMD".index(outcome.letter))
    return [f"{outcome.letter} {outcome.path}" for outcome in ordered]


def render_failure(error: str, done: Sequence[HunkResult], left: Sequence[HunkResult]) -> str:
    """The text on stderr: the error, then exactly what was and what was not applied."""
    lines = [error]
    if done:
        lines += ["Applied before this failure, and still in place:", *list_outcomes(done)]
        lines += ["Not applied:", *list_outcomes(left)]
    else:
        lines.append("No file was changed.")
    return "\n".join([*lines, ""])


def render_diff(old_text: str, edits: Sequence[LineEdit]) -> str:
    """The hunks of a unified diff with one line of context; no file header."""
    lines = split_lines(old_text)
    parts: list[str] = []
    shift = 0
    for group in _groups(edits):
        body, grown = _render_group(lines, group, shift)
        parts.extend(body)
        shift += grown
    return "".join(parts)


def replace_all(old_text: str, new_text: str) -> tuple[LineEdit, ...]:
    """The edit that replaces the whole text by `new_text`."""
    if old_text == new_text:
        return ()
    return (LineEdit(0, len(split_lines(old_text)), tuple(split_lines(new_text))),)


def _groups(edits: Sequence[LineEdit]) -> Iterator[list[LineEdit]]:
    """Group edits whose context would touch into one hunk."""
    group: list[LineEdit] = []
    for edit in edits:
        if group and edit.start - (group[-1].start + group[-1].removed) > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def _render_group(lines: list[str], group: list[LineEdit], shift: int) -> tuple[list[str], int]:
    """Return the hunk's text and by how many lines the file has grown in it."""
    first = max(group[0].start - CONTEXT_LINES, 0)
    end = min(group[-1].start + group[-1].removed + CONTEXT_LINES, len(lines))
    body: list[str] = []
    at = first
    for edit in group:
        body += [_marked(" ", line) for line in lines[at : edit.start]]
        at = edit.start + edit.removed
        body += [_marked("-", line) for line in lines[edit.start : at]]
        body += [_marked("+", line) for line in edit.added]
    body += [_marked(" ", line) for line in lines[at:end]]
    grown = sum(len(edit.added) - edit.removed for edit in group)
    old_range = _range(first, end - first)
    new_range = _range(first + shift, end - first + grown)
    return [f"@@ -{old_range} +{new_range} @@\n", *body], grown


def _range(start: int, count: int) -> str:
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _marked(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n{NO_NEWLINE}"
