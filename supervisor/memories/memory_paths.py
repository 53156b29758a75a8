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

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.ids import short_id

from ..isolation.sandboxed_git import BranchFailed, SandboxedGit
from ..runs.paths import UserPaths, make_private_folder

GLOBAL, DATABASE = "global", "memories.sqlite"
_POLL_S = 0.05


class MemoriesBusy(SwarmError):
    """Another process writes memories now."""


class MemoryPaths:
    """`places`: the person's folders; nothing is created."""

    def __init__(self, places: UserPaths) -> None:
        self.folder = places.memories
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


def find_project(path: str, environment: dict[str, str]) -> tuple[str, str]:
    """The project to which a folder belongs, and its top folder.

    A repository is known by its first commit, so that a clone keeps its memories; any other folder
    by its path. git runs in the sandbox.
    """
    real = os.path.realpath(path)
    try:
        git = SandboxedGit(environment)
        top = git.run(("rev-parse", "--show-toplevel"), real).strip()
        roots = git.run(("rev-list", "--max-parents=0", "HEAD"), real).split()
    except BranchFailed:
        return _key(f"path {real}"), real
    return _key(f"git {min(roots)}"), top


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
