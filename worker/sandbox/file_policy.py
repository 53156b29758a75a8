"""Decides which paths a command may change, for the file broker. No I/O: canonical paths only.

A protected name directly in a guarded folder is closed whether it exists or not, in every spelling
that some file system treats as the same. What is closed cannot be moved, nor can any folder above
it, so that no rename can close or open a path.

In the git folder of a granted repository an allowlist holds objects, references, their logs and the
few files at the top that git writes when it records work. Everything else is closed, known or not:
git runs what it finds in hooks and configuration, and follows `commondir`, `alternates` and the
lists of an unfinished rebase.
"""

import re
from typing import Literal

from swarm.mailbox.base.path_rules import (
    KERNEL_TREES,
    PROTECTED_NAMES,
    is_git_name,
    is_protected_name,
    is_within,
)
from swarm.mailbox.protocol.values.base import Value

from .sandbox_plan import SandboxPlan

# outside: the broker does not decide there, the kernel's own rules do.
# commit: in a repository's git folder, where only plain files and folders are made.
PathAccess = Literal["open", "closed", "outside", "commit"]


class FilePolicy(Value):
    """Canonical paths. If a path is in both a root and a closed tree, the deeper one counts."""

    roots: tuple[str, ...]  # may be changed, with everything below,
    closed: tuple[str, ...] = ()  # except these, with everything below
    guarded: tuple[str, ...] = ()  # folders in which no protected name may be touched
    names: tuple[str, ...] = PROTECTED_NAMES
    repositories: tuple[str, ...] = ()  # git folders, open by the names that git writes
    whole: tuple[str, ...] = ()  # roots that the command's own rules grant with everything below


def file_policy(plan: SandboxPlan) -> FilePolicy:
    """The policy for what the plan makes writable."""
    tmp = (plan.tmp_dir,) if plan.tmp_dir and plan.tmp_writable else ()
    return FilePolicy(
        roots=(*plan.writable, *tmp),
        closed=(
            *plan.protected, *plan.links, *plan.hidden, *plan.hidden_files,
            *plan.denied, *plan.denied_files,
        ),
        guarded=plan.writable,
        repositories=plan.committing,
        whole=tuple(path for path in tmp if not any(is_within(r, path) for r in plan.writable)),
    )  # fmt: skip


def path_access(policy: FilePolicy, path: str) -> PathAccess:
    """What may be made, written or removed at a path whose folder is canonical."""
    repository = max(
        (one for one in policy.repositories if is_within(path, one)), key=len, default=""
    )
    if repository:
        closed = _deepest(policy.closed, path) > len(repository)
        is_named = path != repository and is_committable(path[len(repository) + 1 :])
        return "commit" if is_named and not closed else "closed"
    root = _deepest(policy.roots, path)
    if root < 0 or any(is_within(path, tree) for tree in KERNEL_TREES):
        return "outside"
    if _deepest(policy.closed, path) >= root:
        return "closed"
    return "closed" if names_protected(path, policy.guarded, policy.names, root) else "open"


def names_protected(
    path: str, folders: tuple[str, ...], names: tuple[str, ...] = PROTECTED_NAMES, root: int = -1
) -> bool:
    """True for a path at or below a protected name, in any spelling, directly in such a folder.

    `root`: how long the deepest root above the path is; -1: it is looked for among the folders. A
    root at or below such a name was named by a person.
    """
    deepest = root if root >= 0 else _deepest(folders, path)
    for folder in folders:
        if folder == path or not is_within(path, folder):
            continue
        name = path[len(folder.rstrip("/")) + 1 :].partition("/")[0]
        place = f"{folder.rstrip('/')}/{name}"
        is_short = ".git" in names and is_git_name(name)
        if (is_short or is_protected_name(name, names)) and deepest < len(place):
            return True
    return False


def is_immovable(policy: FilePolicy, path: str) -> bool:
    """True if `path` may not be renamed or removed: a closed path or a root is at or below it."""
    kept = (*policy.closed, *policy.roots, *policy.guarded)
    return any(is_within(one, path) for one in kept)


def _deepest(trees: tuple[str, ...], path: str) -> int:
    """The length of the longest of `trees` that contains the path; -1 if none does."""
    return max((len(tree) for tree in trees if is_within(path, tree)), default=-1)


_TREES = frozenset({"objects", "refs", "logs"})
# A lock is a file that git renames to the file that it locks.
_FILES = re.compile(
    r"(index|index\.stash\.\d+|next-index-\d+|HEAD|ORIG_HEAD|MERGE_HEAD|MERGE_MODE|MERGE_MSG"
    r"|MERGE_RR|MERGE_AUTOSTASH|AUTO_MERGE|CHERRY_PICK_HEAD|REVERT_HEAD|SQUASH_MSG|COMMIT_EDITMSG"
    r"|TAG_EDITMSG|FETCH_HEAD|packed-refs|packed-refs\.new|sharedindex\.\w+|sharedindex_\w+)(\.lock)?",
    re.ASCII,
)
_IN_INFO = re.compile(r"packs\w*|commit-graph(s|s/.*|\.lock)?", re.ASCII)
_FOLLOWED = ("alternates", "http-alternates")


def is_committable(name: str) -> bool:
    """Whether git may write `name`, a path relative to the git folder, as in `refs/heads/main`."""
    top, _, rest = name.partition("/")
    if not rest:
        return top in _TREES or _FILES.fullmatch(top) is not None
    if top != "objects":
        return top in _TREES
    steps = rest.casefold().split("/")
    if any(step.removesuffix(".lock") in _FOLLOWED for step in steps):
        return False
    if steps[0] == "info":
        return len(steps) == 1 or _IN_INFO.fullmatch("/".join(steps[1:])) is not None
    return True
