"""The named grant "commit in this repository": what of `.git` a command may then write.

The grant opens a list of names. Hooks, configuration and everything else that
git would run or follow stay read-only, and cannot be created.
"""

import os
from pathlib import Path

import msgspec

from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.protocol.values.base import Value

from .sandbox_plan import SandboxPlan, Stack
from .sandbox_probe import probe_sandbox

_MOST_POINTER_BYTES = 8192


class GitRepository(Value):
    """One repository; canonical paths."""

    folder: str  # the working tree's top
    git_folders: tuple[str, ...]  # the shared one first, then this working tree's own


def find_repository(folder: str) -> str | None:
    """The nearest folder at or above `folder` that holds a `.git`."""
    here = Path(os.path.realpath(folder))
    for one in (here, *here.parents):
        if os.path.lexists(one / ".git"):
            return str(one)
    return None


def read_repository(folder: str) -> GitRepository | None:
    """What the grant opens in the repository whose working tree starts here; None if there is none.

    A `.git` that is a symlink does not count: it may lead to any repository.
    """
    pointer = Path(os.path.realpath(folder), ".git")
    found = _git_folders(pointer)
    if not found:
        return None
    return GitRepository(folder=str(pointer.parent), git_folders=tuple(str(path) for path in found))


def can_open_repository(stack: Stack) -> bool:
    """Whether a command can be allowed to commit here, which needs calls that wait for a broker."""
    return stack != "none" and probe_sandbox().answers


def with_commit_grant(plan: SandboxPlan, folder: str) -> SandboxPlan | None:
    """The plan with the grant added: the folders stay read-only, and a broker writes for git.

    None where the grant cannot be enforced: no system call of a command can wait for a broker, or
    no repository is found whose working tree the plan makes writable.
    """
    if not can_open_repository(plan.stack):
        return None
    found = read_repository(folder)
    if found is None or not any(is_within(found.folder, root) for root in plan.writable):
        return None
    folders = tuple(path for path in found.git_folders if path not in plan.writable)
    return msgspec.structs.replace(
        plan,
        protected=tuple(dict.fromkeys((*plan.protected, *folders))),
        committing=folders,
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
        data = read_user_file(file, most_bytes=_MOST_POINTER_BYTES)
        text = data.decode("utf-8", "replace").strip()
    except OSError:
        return None
    if not text.startswith(word):
        return None
    return Path(os.path.realpath(file.parent / text.removeprefix(word).strip()))
