"""Where a folder's path stays short: the path of a Unix socket ends at 107 bytes.

Programs put their sockets into the temporary folder. A run's own folder is too deep for that, and a
person's `TMPDIR` may be too.
"""

import os
import stat

_BASES = ("/tmp", "/var/tmp")


def find_short_base() -> str | None:
    """A canonical folder for temporary files of every user; None if none of them will do.

    Programs that lie in it must start, and nobody may rename what is another's there.
    """
    for base in map(os.path.realpath, _BASES):
        try:
            mode, flags = os.stat(base).st_mode, os.statvfs(base).f_flag  # noqa: PTH116
        except OSError:
            continue
        is_shared_safely = not mode & stat.S_IWOTH or bool(mode & stat.S_ISVTX)
        if is_shared_safely and not flags & os.ST_NOEXEC and os.access(base, os.W_OK | os.X_OK):
            return base
    return None
