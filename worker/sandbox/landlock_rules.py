"""Turns a plan into Landlock grants, for machines without bubblewrap. Reads folders only.

Landlock can grant but not except. A tree with a hole is therefore granted child by child, and the
folders on the way to the hole get no grant themselves. Consequences: where a root holds something
protected, nothing new can be made directly in that root; names of hidden files can be listed, but
their contents cannot be read; /tmp is not replaced, and TMPDIR points to the private one. Where a
hole lies in /tmp or /run, only what the plan needs of that tree is granted: the tree may hold many
files, and bubblewrap shows no more of it.
"""

import os
import stat

from swarm.mailbox.base.path_rules import KERNEL_TREES, PRIVATE_TREES, is_protected_name, is_within

from .landlock import (
    DEVICE,
    EXECUTE,
    READ,
    READ_DIR,
    READ_FILE,
    WRITE,
    LandlockGrant,
    LandlockRules,
)
from .sandbox_plan import SandboxPlan

# Not `pts`: a command could read from and write to the terminals of all the user's sessions.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_TERMINALS = ("ptmx", "pts")
_MOST_CHILDREN = 4096  # of one folder on the way to a hole; beyond that the rest stays closed
_CROWDED_TREES = PRIVATE_TREES  # a grant for each unrelated file costs a command 10 µs


def landlock_rules(
    plan: SandboxPlan, *, terminals: bool = False, brokered: bool = False
) -> LandlockRules:
    """Grants for `plan`. What appears later in a folder on the way to a hole stays closed.

    With `terminals`, new terminals can be made and all can be used: for swarm's own processes. With
    `brokered`, no root is granted as a whole: a broker makes what is new in it (`file_broker.py`),
    so that no protected name can be created.
    """
    devices = _DEVICES + _TERMINALS * terminals
    denied = (*plan.denied, *plan.denied_files)
    holes = (*plan.hidden, *plan.hidden_files, *denied, "/dev")
    closed = (*plan.protected, *plan.links, *(plan.missing if brokered else ()))
    wanted = (*plan.visible, *plan.writable, *(() if plan.tmp_dir is None else (plan.tmp_dir,)))
    wanted = (*wanted, *(path for path in plan.readable if path != "/"))
    grants = [
        LandlockGrant(path=path, access=READ_DIR)
        for root in plan.readable
        for path in _paths_without_holes(root, plan.denied, wanted)
    ]
    grants += [
        LandlockGrant(path=path, access=EXECUTE | READ_FILE)
        for root in plan.readable
        for path in _paths_without_holes(root, holes, wanted)
    ]
    if "/" not in plan.readable:
        grants += [LandlockGrant(path=path, access=READ) for path in plan.visible]
    grants += [LandlockGrant(path=f"/dev/{name}", access=DEVICE | READ_DIR) for name in devices]
    for root in plan.writable:
        grants += [
            LandlockGrant(path=path, access=WRITE)
            for path in _paths_without_holes(root, (*holes, *closed, *KERNEL_TREES), wanted)
            if not (brokered and _is_protected(path, plan))
        ]
    if plan.tmp_dir:
        access = WRITE if plan.tmp_writable else READ
        inside = closed if brokered else ()
        grants += [
            LandlockGrant(path=path, access=access)
            for path in _paths_without_holes(plan.tmp_dir, inside, wanted)
        ]
    return LandlockRules(grants=tuple(grants), network=plan.network)


def broker_rules(plan: SandboxPlan) -> LandlockRules:
    """All that a command of this plan or its broker may do, with no exceptions."""
    changed = (*plan.writable, *((plan.tmp_dir,) if plan.tmp_dir and plan.tmp_writable else ()))
    grants = [
        LandlockGrant(path="/", access=READ),
        LandlockGrant(path="/dev", access=DEVICE | READ_DIR),
    ]
    changed = (*changed, *plan.committing, "/dev/shm")
    grants += [LandlockGrant(path=path, access=WRITE | DEVICE) for path in changed]
    return LandlockRules(grants=tuple(grants), network=plan.network)


def terminal_grant(fd: int) -> LandlockGrant:
    """The grant for a command's own terminal. Raises OSError if `fd` is not a terminal."""
    return LandlockGrant(path=os.ttyname(fd), access=DEVICE)


def _is_protected(path: str, plan: SandboxPlan) -> bool:
    """True for a protected name in any spelling that is not itself a root."""
    folder, _, name = path.rpartition("/")
    return (
        (folder or "/") in plan.writable and path not in plan.writable and is_protected_name(name)
    )


def _paths_without_holes(root: str, holes: tuple[str, ...], wanted: tuple[str, ...]) -> list[str]:
    """The largest paths below `root` that contain no hole."""
    inside = tuple(hole for hole in holes if is_within(hole, root))
    if not inside:
        return [root]
    if root in inside:
        return []
    found: list[str] = []
    for child in _children(root, wanted):
        found += _paths_without_holes(child, inside, wanted)
    return found


def _is_unlinked(path: str) -> bool:
    try:
        return not stat.S_ISLNK(os.lstat(path).st_mode)  # no Path: each locked agent calls this
    except OSError:
        return False


def _is_text(name: str) -> bool:
    """False for bytes that are no UTF-8: no order to a launcher can name such a path."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _children(root: str, wanted: tuple[str, ...]) -> list[str]:
    """Children that are not links, and whose names are text; others stay closed.

    Those on the way to `wanted`, and outside crowded trees all others too.
    """
    base = root.rstrip("/") + "/"
    names = {path.removeprefix(base).partition("/")[0] for path in wanted if path.startswith(base)}
    children = [base + name for name in sorted(names) if name]
    found = [path for path in children if _is_unlinked(path)]
    if any(is_within(root, one) for one in _CROWDED_TREES) and not any(
        is_within(root, w) for w in wanted
    ):
        return found
    try:
        with os.scandir(root) as entries:
            for _, entry in zip(range(_MOST_CHILDREN), entries, strict=False):
                if entry.name not in names and not entry.is_symlink() and _is_text(entry.name):
                    found.append(entry.path)
    except OSError:
        return found
    return found
