"""How much memory is available to this machine or to the container that this process runs in.

A share of the memory is computed from what is really available.
"""

import os
from pathlib import Path

# The container's limit in cgroup v2 and v1; a missing file means no limit.
_CGROUP_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes(bounds: tuple[str, ...] = _CGROUP_LIMIT_FILES) -> int:
    """The machine's memory, or the container's limit if that is less."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in bounds:
        try:
            words = Path(name).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if words.isdecimal() and int(words) > 0:  # `max` means no limit
            found.append(int(words))
    return min(found)
