"""One writer at a time in each folder of a project, over all processes of swarm on this machine.

Merges, undos and agents' patches compare a file and then write it; nobody else of swarm may write
there in between. A writer holds one folder alone, with all below it, and shares the folders above:
two writers whose folders lie in each other wait, others do not. All locks are bytes of one file
that no command sees, so no agent can hold one; the kernel gives them up when their holder dies.

Other programs know nothing of it: `mailbox.file_exchange` is for those. Blocks.
"""

import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.private_files import make_own_folders

from ...base.interruption import let_interrupts_in

MERGE_WAIT_S = 60.0
_PAUSE_S = 0.005
_FLOCK = "@hhqqi4x"  # struct flock: type, whence, start, length, pid


class ProjectBusy(SwarmError):
    """Another process of swarm writes there for longer than one waits; nothing was written."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"another merge, undo or patch of swarm is writing below {folder}; try again when it "
            "is done"
        )


@contextmanager
def hold_project(
    lock_file: Path, paths: Iterable[str], *, limit_s: float = MERGE_WAIT_S
) -> Iterator[None]:
    """Hold the nearest folder that has all these absolute paths in it.

    Raises ProjectBusy after `limit_s`; SwarmError if the file of locks cannot be made.
    """
    fd = take_project(lock_file, paths, limit_s=limit_s)
    try:
        yield
    finally:
        os.close(fd)


def take_project(lock_file: Path, paths: Iterable[str], *, limit_s: float) -> int:
    """As `hold_project`; the lock is held until the caller closes the descriptor."""
    folder = common_folder(paths)
    try:
        make_own_folders(lock_file.parent)
        fd = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SwarmError(
            f"{lock_file} cannot be made: {error.strerror}; nothing is written without it"
        ) from error
    try:
        ends_at = time.monotonic() + limit_s
        for above in reversed(folder.parents):  # all in the same order, so none wait in a circle
            _take(fd, str(above), fcntl.F_RDLCK, folder, ends_at)
        _take(fd, str(folder), fcntl.F_WRLCK, folder, ends_at)
    except BaseException:
        os.close(fd)
        raise
    return fd


def common_folder(paths: Iterable[str]) -> Path:
    """The nearest folder that has all these paths in it, without links; `/` for none."""
    folders = {os.path.realpath(os.path.dirname(path)) for path in paths}  # noqa: PTH120 - text
    return Path(os.path.commonpath(folders)) if folders else Path("/")


def _take(fd: int, folder: str, kind: int, wanted: Path, ends_at: float) -> None:
    place = int.from_bytes(sha256(os.fsencode(folder)).digest()[:8]) >> 2
    request = struct.pack(_FLOCK, kind, os.SEEK_SET, place, 1, 0)
    while True:
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, request)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise SwarmError(f"the project cannot be locked: {error.strerror}") from error
        else:
            return
        if time.monotonic() >= ends_at:
            raise ProjectBusy(str(wanted))
        let_interrupts_in()
        time.sleep(_PAUSE_S)
