"""Makes the base of agents' copies: a tree of its own that nobody writes to afterwards.

A file that is unchanged since an earlier base is one more name (hard link) of that base's file;
any other is copied, without sharing its blocks where the file system cannot. The project's own
files are never linked: whoever changes one in place would change the base. Blocks.
"""

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_whole
from swarm.mailbox.base.sparse_copy import copy_sparse

from .tree_survey import CopyRefused, SeenFile, Survey

_FICLONE = 0x40049409
_CHUNK_BYTES = 1 << 30
_STAT_BLOCK_BYTES = 512
SPARE_BYTES = 256 << 20  # of the disk, which a base leaves free
_NO_CLONE = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM)
_GIT_CONFIG_BYTES = 1 << 20
_GIT_LINES = b"\n[core]\n\ttrustctime = false\n\tcheckStat = minimal\n"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_tree(
    root: str,
    survey: Survey,
    into: Path,
    earlier: tuple[Survey, Path] | None,
    go_on: Callable[[], None] = lambda: None,
) -> tuple[str, ...]:
    """Fill `into`, which does not exist, with what the survey lists.

    Args:
        root: The canonical folder that the survey describes.
        survey: What to copy.
        into: Below a folder that no command can see.
        earlier: A base of the same folder, and its survey.
        go_on: Called before each entry; what it raises ends the work.

    Returns:
        The files that could not be copied: closed to us, or gone meanwhile.

    Raises:
        CopyRefused: the disk has too little room.
        OSError: the tree cannot be written.
    """
    known = earlier[0].entries if earlier else {}
    same = {name for name, seen in survey.entries.items() if _is_known(seen, known.get(name))}
    fresh = sum(one.size for name, one in survey.entries.items() if name not in same)
    if fresh + SPARE_BYTES > shutil.disk_usage(into.parent).free:
        raise CopyRefused(
            f"a copy of {root} takes {fresh >> 20} MiB, and the disk of {into.parent} has too "
            "little room"
        )
    into.mkdir(mode=0o700)
    missing: list[str] = []
    folders: list[tuple[Path, int]] = [(into, survey.mode)]
    for name, seen in survey.entries.items():
        go_on()
        target = into / name
        match seen.kind:
            case "folder":
                target.mkdir(mode=0o700)
                folders.append((target, seen.mode))
            case "link":
                target.symlink_to(seen.target)
            case "file":
                linked = earlier is not None and name in same and _link(earlier[1] / name, target)
                if not linked and not copy_file(
                    f"{root.rstrip('/')}/{name}", target, seen.size, seen.mode
                ):
                    missing.append(name)
    _settle_git(into)
    for folder, mode in reversed(folders):
        folder.chmod(mode & 0o777)
    return tuple(missing)


def _settle_git(into: Path) -> None:
    """Have git compare size and time only: a copied file has another inode than its index says."""
    config = into / ".git" / "config"
    try:
        data = read_whole(open_canonical(str(config), READ_FLAGS), most_bytes=_GIT_CONFIG_BYTES)
    except OSError:
        return
    if _GIT_LINES not in data:
        mode = stat.S_IMODE(config.stat().st_mode)
        config.unlink()  # it may be an earlier base's file
        config.write_bytes(data + _GIT_LINES)
        config.chmod(mode)


def _is_known(seen: SeenFile, before: SeenFile | None) -> bool:
    return seen.kind == "file" and before is not None and before.is_same_as(seen)


def _link(source: Path, target: Path) -> bool:
    """False: copy it; the earlier base lacks it, or a file cannot have more names."""
    try:
        target.hardlink_to(source)
    except OSError:
        return False
    return True


def copy_file(path: str, target: Path, size: int, mode: int) -> bool:
    """Copy at most so much of one file, with its time, and this mode.

    False: it cannot be read, or is no file any more.
    """
    try:
        source = open_canonical(path, READ_FLAGS)
    except OSError:
        return False
    try:
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode):
            return False
        fd = os.open(target, _CREATE, 0o600)
        try:
            _copy_contents(source, fd, size)
            os.fchmod(fd, mode)
            os.utime(fd, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        finally:
            os.close(fd)
    finally:
        os.close(source)
    return True


def _copy_contents(source: int, target: int, size: int) -> None:
    """Share the blocks if the file system can; else copy at most `size` bytes, holes as holes.

    Raises OSError.
    """
    if size == 0:
        return
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno not in _NO_CLONE:
            raise
    else:
        with suppress(OSError):
            os.ftruncate(target, min(size, os.fstat(target).st_size))
        return
    if os.fstat(source).st_blocks * _STAT_BLOCK_BYTES < size:
        copy_sparse(source, target, size)
        return
    left = size
    try:
        while left > 0 and (done := os.copy_file_range(source, target, min(left, _CHUNK_BYTES))):
            left -= done
    except OSError as error:  # between two kinds of file systems
        if error.errno not in _NO_CLONE:
            raise
        while left > 0 and (done := os.sendfile(target, source, None, min(left, _CHUNK_BYTES))):
            left -= done
