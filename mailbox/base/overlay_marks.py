"""The marks by which an upper layer of an overlay hides what the layers below it have."""

import os
import stat

OPAQUE = "user.overlay.opaque"  # of a folder: nothing of the layers below shows in it
NO_DEVICE = os.makedev(0, 0)  # of a character device: the name is gone


def is_opaque(folder: int | str) -> bool:
    """By an open descriptor, or by a path whose last step is no link. False if it has no mark."""
    try:
        return os.getxattr(folder, OPAQUE, follow_symlinks=isinstance(folder, int)) == b"y"
    except OSError:
        return False


def is_whiteout(facts: os.stat_result) -> bool:
    """True for an entry that says that a name is gone."""
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == NO_DEVICE
