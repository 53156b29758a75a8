"""The named grant "commit in this repository": what of `.git` a command may then write.

Guards: objects, index, refs and logs are opened; hooks, configuration and whatever else git would
run or follow stay read-only, also where they do not exist yet.
"""

import os
from pathlib import Path

import msgspec

from swarm.mailbox.beneath import read_named
from swarm.mailbox.path_rules import is_within
from swarm.mailbox.protocol.base import Value

from .plan import SandboxPlan

# Git runs these, reads commands from them, or follows them to another place.
_POINTERS = ("commondir", "gitdir")
_FOLDERS = frozenset({"hooks", "info", "modules", "worktrees"})
_CLOSED = ("hooks", "info", "modules", "worktrees", "config", "config.worktree", *_POINTERS)
_MOST_POINTER_BYTES = 8192


class Repository(Value):
    """Canonical paths. `missing` and `unwanted` are closed names that do not exist: folders, and
    files in whose place git would not bear a folder.
    """

    folder: str  # the working tree's top
    git_folders: tuple[str, ...]  # of this tree, and behind it the repository's own
    closed: tuple[str, ...]
    missing: tuple[str, ...]
    unwanted: tuple[str, ...]


def find_repository(folder: str) -> str | None:
    """The nearest folder at or above `folder` that holds a `.git`."""
    here = Path(os.path.realpath(folder))
    for one in (here, *here.parents):
        if os.path.lexists(one / ".git"):
            return str(one)
    return None


def open_repository(folder: str) -> Repository | None:
    """What the grant opens in the repository whose tree has its top here; None if there is none.

    A `.git` that is a link is no repository of ours: what it leads to may be anybody's.
    """
    pointer = Path(os.path.realpath(folder), ".git")
    found = _git_folders(pointer)
    if not found:
        return None
    closed: list[str] = []
    missing: list[str] = []
    unwanted: list[str] = []
    for git in found:
        for name in _CLOSED:
            path = git / name
            if any(path in other.parents for other in found):
                continue  # this tree's own data lies in it
            if os.path.lexists(path):
                closed.append(str(path))
            else:
                (missing if name in _FOLDERS else unwanted).append(str(path))
    return Repository(
        folder=str(pointer.parent),
        git_folders=tuple(str(path) for path in found),
        closed=tuple(closed),
        missing=tuple(missing),
        unwanted=tuple(unwanted),
    )


def with_repository(plan: SandboxPlan, folder: str) -> SandboxPlan | None:
    """The plan with the grant on top.

    None where it cannot be held to: Landlock gives a folder with all that is in it, so the hooks
    would be open too; and there is no repository of which the plan lets the tree be written.
    """
    if plan.stack != "bwrap":
        return None
    found = open_repository(folder)
    if found is None or not any(is_within(found.folder, root) for root in plan.writable):
        return None
    opened = set(found.git_folders)
    kept = [path for path in plan.protected if path not in opened]
    return msgspec.structs.replace(
        plan,
        writable=tuple(dict.fromkeys((*plan.writable, *found.git_folders))),
        protected=tuple(dict.fromkeys((*kept, *found.closed))),
        missing=tuple(path for path in (*plan.missing, *found.missing) if path not in opened),
        unwanted=(*plan.unwanted, *found.unwanted),
        reason=f"{plan.reason}, may commit in {found.folder}",
    )


def _git_folders(pointer: Path) -> list[Path]:
    if pointer.is_symlink():
        return []
    if pointer.is_dir():
        return [pointer] if (pointer / "HEAD").is_file() else []
    target = _read_pointer(pointer, "gitdir:")
    if target is None or not (target / "HEAD").is_file():
        return []
    common = _read_pointer(target / "commondir", "")
    return [target] if common is None or common == target else [common, target]


def _read_pointer(file: Path, word: str) -> Path | None:
    try:
        data = read_named(file, most_bytes=_MOST_POINTER_BYTES)
        text = data.decode("utf-8", "replace").strip()
    except OSError:
        return None
    if not text.startswith(word):
        return None
    return Path(os.path.realpath(file.parent / text.removeprefix(word).strip()))
