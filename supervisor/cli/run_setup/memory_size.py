"""How much memory this machine, or the container around us, has.

Rule: a share of the memory is a share of what we can really get.
"""

import os
from pathlib import Path

# Of the container, in both versions of cgroups; a file that is not there says nothing.
_CGROUP_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes(bounds: tuple[str, ...] = _CGROUP_LIMIT_FILES) -> int:
    """The machine's memory, or the container's bound if that is less."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in bounds:
        try:
            words = Path(name).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if words.isdecimal() and int(words) > 0:  # `max` is none
            found.append(int(words))
    return min(found)
