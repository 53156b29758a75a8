"""Where memories lie, whose they are, and who may write them.

    STATE/memories/memories.sqlite, lock, job.log
    STATE/memories/PROJECT/memory_summary.md, MEMORY.md, …

No command of an agent sees this folder. Blocks.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id

from ...runs.paths import UserPaths, make_private_folder
from .memory_facts import GLOBAL

DATABASE = "memories.sqlite"
_POLL_S = 0.05


def memories_folder(state: Path) -> Path:
    """What runs learned, in swarm's folder of state; one folder for all runs."""
    return state / "memories"


class MemoriesBusy(SwarmError):
    """Another process writes memories now."""


class MemoryPaths:
    """`places`: the person's folders; nothing is created."""

    def __init__(self, places: UserPaths) -> None:
        self.folder = memories_folder(places.state)
        self.database = self.folder / DATABASE
        self.log = self.folder / "job.log"
        self.scratch = places.cache / "memory-job"

    def project(self, project: str) -> Path:
        return self.folder / project

    @contextmanager
    def writing(self, *, wait_s: float) -> Iterator[None]:
        """Hold the lock of who writes. Raises MemoriesBusy, SwarmError."""
        make_private_folder(self.folder)
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            ends_at = time.monotonic() + wait_s
            while not _try_lock(fd):
                if time.monotonic() >= ends_at:
                    raise MemoriesBusy(
                        "memories are being written by another process (`swarm memory status`); "
                        "try again in a moment"
                    )
                time.sleep(_POLL_S)
            yield
        finally:
            os.close(fd)


def find_project(path: str) -> tuple[str, str]:
    """The project of a folder that is linked to no other, and its top folder.

    It is known by the path of the repository, or of the folder outside of one: what is inside
    proves nothing, for anybody can make a clone with the same commits.
    """
    top = find_top(path)
    return _key(f"path {top}"), top


def find_top(cwd: str) -> str:
    """The folder of the repository around a folder, or that folder."""
    return str(up_to_repository(Path(os.path.realpath(cwd)))[-1])


def up_to_repository(here: Path) -> list[Path]:
    """The folder, and those above it up to that of its repository; alone outside of one."""
    folders: list[Path] = []
    for folder in (here, *here.parents):
        folders.append(folder)
        if os.path.lexists(folder / ".git"):
            return folders
    return [here]


def label_of(project: str, paths: tuple[str, ...]) -> str:
    """How a project is called in texts."""
    if project == GLOBAL:
        return "all projects"
    return Path(paths[0]).name if paths else short_id(project)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
