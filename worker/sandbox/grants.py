"""From a plan to Landlock grants, for machines without bubblewrap. Looks at folders only.

Landlock can grant but not except. A tree with a hole is therefore granted child by child, and the
folders on the way to the hole get nothing for themselves. Consequences: where a root holds
something protected, nothing new can be made directly in that root; names of hidden files can be
listed, their contents not read; /tmp is not replaced, TMPDIR points to the private one.
"""

import os

from .landlock import DEVICE, EXECUTE, READ, READ_DIR, READ_FILE, WRITE, Grant, LandlockRules
from .plan import SandboxPlan, is_below

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_MOST_CHILDREN = 4096  # of one folder on the way to a hole; beyond that the rest stays closed


def landlock_rules(plan: SandboxPlan) -> LandlockRules:
    """Grants for `plan`. What appears later in a folder on the way to a hole stays closed."""
    holes = (*plan.hidden, *plan.hidden_files, "/dev")
    closed = (*plan.protected, *plan.links)
    grants = [Grant(path="/", access=READ_DIR)]
    grants += [Grant(path=path, access=EXECUTE | READ_FILE) for path in _carve("/", holes)]
    grants += [Grant(path=f"/dev/{name}", access=DEVICE | READ_DIR) for name in _DEVICES]
    for root in plan.writable:
        grants += [Grant(path=path, access=WRITE) for path in _carve(root, (*holes, *closed))]
    if plan.tmp_dir:
        access = WRITE if plan.tmp_writable else READ
        grants.append(Grant(path=plan.tmp_dir, access=access))
    return LandlockRules(grants=tuple(grants), network=plan.network)


def _carve(root: str, holes: tuple[str, ...]) -> list[str]:
    """The largest paths below `root` that contain no hole."""
    inside = tuple(hole for hole in holes if is_below(hole, root))
    if not inside:
        return [root]
    if root in inside:
        return []
    found: list[str] = []
    try:
        with os.scandir(root) as entries:
            for _, entry in zip(range(_MOST_CHILDREN), entries, strict=False):
                if not entry.is_symlink():
                    found += _carve(entry.path, inside)
    except OSError:
        return found
    return found
