"""The lines of a unified diff, each with what it is. Pure.

A removed SQL comment is `--- text` and an added C increment `+++i`: a line that looks like a file's
header is one only outside of a hunk, whose own header says how many lines it has.
"""

import re
from collections.abc import Iterator
from typing import Literal

DiffLineKind = Literal["header", "hunk", "context", "removed", "added", "note"]
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_KINDS: dict[str, DiffLineKind] = {
    "": "context", " ": "context", "-": "removed", "+": "added", "\\": "note",
}  # fmt: skip
_UNKNOWN = float("inf")


def diff_lines(diff: str) -> Iterator[tuple[DiffLineKind, str]]:
    """Each line without its line feed.

    A hunk whose header has no counts, or from whose middle something was left out, ends at the next
    hunk or file.
    """
    removed = added = 0.0  # lines that the hunk still has
    for line in diff.removesuffix("\n").split("\n"):
        is_open = removed > 0 or added > 0
        ends = line.startswith(("@@", "diff --git ")) and _UNKNOWN in (removed, added)
        if is_open and not ends:
            kind = _KINDS.get(line[:1], "note")
            if line[:1] not in _KINDS:
                removed = added = _UNKNOWN
            removed -= kind in ("context", "removed")
            added -= kind in ("context", "added")
            yield kind, line
        elif line.startswith("@@"):
            found = _HUNK.match(line)
            removed = _UNKNOWN if found is None else float(found[1] or 1)
            added = _UNKNOWN if found is None else float(found[2] or 1)
            yield "hunk", line
        else:
            removed = added = 0
            yield ("note" if line.startswith("\\") else "header"), line
