"""Where the protected names of a folder lead: what git and agents' tools read by them.

A name may be a link, and a `.git` may be a file that names git's folder. Only reads. Blocks.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from .path_rules import PROTECTED_NAMES, is_within
from .safe_open import read_user_file

_MOST_POINTER_BYTES = 8192  # a path has 4096 at most


def find_protected_places(roots: Iterable[str]) -> tuple[str, ...]:
    """The protected names of these folders, and where in them they lead, if to no whole one.

    Missing names and targets count as well.
    """
    found: dict[str, None] = {}
    roots = tuple(roots)
    for root in roots:
        for name in PROTECTED_NAMES:
            path = f"{root.rstrip('/')}/{name}"
            found |= {path: None, os.path.realpath(path): None}
        found |= dict.fromkeys(find_git_folders(Path(root, ".git")))
    return tuple(p for p in found if p not in roots and any(is_within(p, r) for r in roots))


def find_git_folders(pointer: Path) -> list[str]:
    """What a `.git` file points to: the worktree's folder and the repository behind it."""
    try:
        text = read_user_file(pointer, most_bytes=_MOST_POINTER_BYTES).decode("utf-8", "replace")
        word, _, target = text.strip().partition(":")
        if word != "gitdir":
            return []
        folder = (pointer.parent / target.strip()).resolve()
        found = [folder]
        if (folder / "commondir").is_file():
            common = read_user_file(folder / "commondir", most_bytes=_MOST_POINTER_BYTES)
            found.append((folder / common.decode("utf-8", "replace").strip()).resolve())
    except (OSError, ValueError):
        return []
    return [str(path) for path in found if path.exists()]
