"""What the folder of a run's project is known by, should it be found elsewhere later.

Its device and number stay when it is renamed; a copy or a clone has the commit that was checked
out. Git is not run: its files are read, bounded.
"""

import os
import re
from pathlib import Path

from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.base.guidance import find_project_root

_MOST_REF_BYTES, _MOST_LOG_BYTES = 8 << 10, 4 << 20
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class ProjectMark(Value):
    """The folder in which a run began, and what its repository had checked out; "" = nothing."""

    device: int = 0
    inode: int = 0
    commit: str = ""


def mark_project(cwd: str) -> ProjectMark:
    """What a run's folder is known by later. Never raises."""
    try:
        found = os.stat(cwd)  # noqa: PTH116
    except OSError:
        return ProjectMark()
    return ProjectMark(device=found.st_dev, inode=found.st_ino, commit=_checked_out(Path(cwd)))


def why_doubtful(mark: ProjectMark, cwd: str) -> str:
    """Why this may be another project than the one in which a run began; "" if it is the same."""
    if not mark.inode:
        return "the run has not recorded what it began in"
    here = mark_project(cwd)
    if (here.device, here.inode) == (mark.device, mark.inode):
        return ""
    if not mark.commit:
        return "it is another folder, and there was no commit by which to know it"
    if here.commit == mark.commit or _has_commit(Path(cwd), mark.commit):
        return ""
    return f"its repository does not show commit {mark.commit[:12]}, at which the run began"


def _git_folders(cwd: Path) -> tuple[Path, Path] | None:
    """The git folder of the working tree, and the shared one."""
    own = find_project_root(Path(os.path.realpath(cwd)), (".git",)) / ".git"
    if own.is_file():
        pointed = _read(own, _MOST_REF_BYTES).partition("gitdir:")[2].strip()
        own = own.parent / pointed
    if not (own / "HEAD").is_file():
        return None
    common = _read(own / "commondir", _MOST_REF_BYTES).strip()
    return own, own / common if common else own


def _checked_out(cwd: Path) -> str:
    folders = _git_folders(cwd)
    if folders is None:
        return ""
    head = _read(folders[0] / "HEAD", _MOST_REF_BYTES).strip()
    name = head.removeprefix("ref:").strip()
    if name != head and ".." not in name.split("/"):
        head = _read(folders[1] / name, _MOST_REF_BYTES).strip()
        if not head:
            packed = _read(folders[1] / "packed-refs", _MOST_LOG_BYTES)
            lines = (line.split(" ") for line in packed.splitlines())
            head = next((one[0] for one in lines if one[1:] == [name]), "")
    return head if _COMMIT.fullmatch(head) else ""


def _has_commit(cwd: Path, commit: str) -> bool:
    """Whether it lies there as an object of its own, or was checked out some time."""
    folders = _git_folders(cwd)
    if folders is None:
        return False
    is_loose = (folders[1] / "objects" / commit[:2] / commit[2:]).is_file()
    return is_loose or commit in _read(folders[0] / "logs" / "HEAD", _MOST_LOG_BYTES)


def _read(path: Path, most_bytes: int) -> str:
    try:
        return read_user_file(path, most_bytes=most_bytes).decode("utf-8", "replace")
    except OSError:
        return ""
