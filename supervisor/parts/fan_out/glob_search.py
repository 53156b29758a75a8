"""Files and folders below one root, by pattern: sorted, bounded, never outside the root.

Hidden names are skipped unless the pattern itself names one (`.github/*`); `.git`, `__pycache__`
and `node_modules` only match a step of exactly that name. Folders behind symbolic links are never
entered; a link is an item only if it leads inside the root.
"""

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.safe_open import scan_folder

MAX_FOUND = 50_000
MAX_VISITED = 1_000_000
_SKIPPED = frozenset({".git", "__pycache__", "node_modules"})
Kind = Literal["dirs", "files", "any"]


class _Entry(NamedTuple):
    """One entry of a folder. `path` is canonical except for its last step."""

    name: str
    path: str
    is_link: bool
    is_folder: bool  # itself, not by a link
    is_plain: bool  # a file, not by a link


def _entry(folder: str, found: "os.DirEntry[str]") -> _Entry:
    return _Entry(
        found.name,
        f"{folder.rstrip('/')}/{found.name}",
        found.is_symlink(),
        found.is_dir(follow_symlinks=False),
        found.is_file(follow_symlinks=False),
    )


class _GlobSearch:
    """One search; counts the entries it visits, so that it ends."""

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)
        self.visited = 0

    def entries(self, folder: str) -> Iterator[_Entry]:
        """The folder's entries; none if it cannot be read or became a link."""
        try:
            with scan_folder(folder) as found:
                entries = [_entry(folder, one) for one in found]
        except OSError:
            return
        self.visited += len(entries)
        if self.visited > MAX_VISITED:
            raise UsageError(
                f"a pattern looks at more than {MAX_VISITED:,} files below {self.root}; "
                "name a folder in it"
            )
        yield from entries


def find_paths(root: Path, patterns: Iterable[str], *, kind: Kind) -> tuple[str, ...]:
    """Paths relative to `root`, with `/`, sorted, without duplicates.

    Args:
        root: Where the patterns start.
        patterns: `*`, `?`, `[…]` within a step and `**` for any number of folders.
        kind: What may be found.

    Raises:
        UsageError: A pattern is absolute, leaves the root, or finds too much.
    """
    walk = _GlobSearch(root)
    found: set[str] = set()
    for pattern in patterns:
        for path in _expand(walk, walk.root, "", check_pattern(pattern), kind):
            found.add(path)
            if len(found) > MAX_FOUND:
                raise UsageError(f"the pattern {pattern!r} finds more than {MAX_FOUND:,} paths")
    return tuple(sorted(found))


def check_pattern(pattern: str) -> tuple[str, ...]:
    """The steps of a pattern. Raises UsageError for one that is empty or leaves the root."""
    steps = tuple(step for step in pattern.split("/") if step not in {"", "."})
    if not steps or pattern.startswith("/") or ".." in steps:
        raise UsageError(
            f"the pattern {pattern!r} must be relative to the working directory and stay inside it"
        )
    return steps


def _expand(
    walk: _GlobSearch, folder: str, prefix: str, steps: tuple[str, ...], kind: Kind
) -> Iterator[str]:
    """Paths below `folder` that the steps match; `prefix` is its path from the root."""
    step, rest = steps[0], steps[1:]
    if step == "**":
        yield from _expand(walk, folder, prefix, rest or ("*",), kind)
    for entry in walk.entries(folder):
        path = f"{prefix}{entry.name}"
        if step == "**":
            if _is_wanted(entry.name, "*") and entry.is_folder:
                yield from _expand(walk, entry.path, f"{path}/", steps, kind)
        elif not _is_wanted(entry.name, step):
            continue
        elif not rest:
            if _is_item(walk, entry, kind):
                yield path
        elif entry.is_folder:
            yield from _expand(walk, entry.path, f"{path}/", rest, kind)


def _is_wanted(name: str, step: str) -> bool:
    if name == step:
        return True
    if name in _SKIPPED or not name.isprintable() or (name[0] == "." and step[0] != "."):
        return False
    return fnmatchcase(name, step)


def _is_item(walk: _GlobSearch, entry: _Entry, kind: Kind) -> bool:
    is_dir, is_file = entry.is_folder, entry.is_plain
    if entry.is_link:
        real = os.path.realpath(entry.path)
        if not is_within(real, walk.root):
            return False
        is_dir, is_file = os.path.isdir(real), os.path.isfile(real)  # noqa: PTH112, PTH113
    return (is_dir and kind != "files") or (is_file and kind != "dirs")
