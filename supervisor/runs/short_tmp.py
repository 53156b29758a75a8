"""Short private folders for the temporary files of commands, where `/tmp` cannot be replaced.

BASE/swarm-XXXXXXXX          one for all runs of a state folder; no command sees it as a whole
BASE/swarm-XXXXXXXX/RUN      one run's; that run holds STATE/locks/tmp-RUN
BASE/swarm-XXXXXXXX/RUN/ID   one agent's

The first name is random, so nobody else can make that folder before us; STATE/short-tmp keeps it.
What a run left that was killed is renamed under the lock of all, and removed without it.
"""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.base.private_files import make_own_folders, write_own_file
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.base.short_places import find_short_base

from .held_locks import in_turn, take_lock

_ASIDE = "gone-"
_NAME_CHARS = 11  # of an agent's id: of its random digits, and the whole path has 40 characters


class ShortTmp(NamedTuple):
    """The short folder of a run, and what killed runs have left beside it."""

    folder: Path | None = None
    stale: tuple[Path, ...] = ()
    problem: str = ""  # why there is no folder

    def of_agent(self, agent_id: str) -> Path | None:
        """Where the temporary files of this agent's commands are; nothing is made."""
        return None if self.folder is None else self.folder / agent_id[-_NAME_CHARS:]

    @property
    def warning(self) -> str:
        """For the person, "" if there is a folder."""
        if not self.problem:
            return ""
        return (
            f"no short folder for temporary files can be made ({self.problem}); where commands run "
            "without bubblewrap, their TMPDIR may be too long for Unix sockets"
        )

    @property
    def of_servers(self) -> Path | None:
        """The folder of MCP servers."""
        return None if self.folder is None else self.folder / "mcp"

    def remove_stale(self) -> None:
        """Remove what killed runs have left. Blocks."""
        for folder in self.stale:
            with suppress(OSError):
                remove_tree(folder)


@contextmanager
def open_short_tmp(state: Path, name: str) -> Iterator[ShortTmp]:
    """Make the folder of a run or node; it is gone after the block.

    Where no short folder can be made the value says why, and nothing else is different.
    """
    try:
        short, lock = _take(state, name)
    except OSError as error:
        yield ShortTmp(problem=f"{error.strerror}: {error.filename}")
        return
    assert short.folder is not None
    try:
        yield short
    finally:
        with suppress(OSError):
            _give_back(short.folder, state)
        os.close(lock)


def find_short_folder(state: Path) -> Path | None:
    """The folder of all runs of this state folder, if it is there and nobody else's. Reads only."""
    try:
        folder = Path(os.fsdecode(_pointer(state).read_bytes()))
        facts = folder.lstat()
    except (OSError, ValueError):
        return None
    is_ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
    return folder if folder.is_absolute() and is_ours and not facts.st_mode & 0o077 else None


def _take(state: Path, name: str) -> tuple[ShortTmp, int]:
    """The run's folder and its lock. Raises OSError."""
    locks = state / "locks"
    make_own_folders(locks)
    with in_turn(_order(locks)):
        parent = find_short_folder(state) or _make_parent(state)
        lock = take_lock(_lock_of(locks, name))
        try:
            folder = parent / name
            make_own_folders(folder)
            return ShortTmp(folder=folder, stale=_set_aside(parent, locks, own=name)), lock
        except BaseException:
            os.close(lock)
            raise


def _make_parent(state: Path) -> Path:
    base = find_short_base()
    if base is None:
        raise OSError(0, "programs cannot be started, or nothing can be made", "/tmp, /var/tmp")
    parent = tempfile.mkdtemp(prefix="swarm-", dir=base)
    write_own_file(_pointer(state), os.fsencode(parent))
    return Path(parent)


def _set_aside(parent: Path, locks: Path, *, own: str) -> tuple[Path, ...]:
    """Rename the folders that nobody holds, so that their runs can be resumed meanwhile."""
    stale: list[Path] = []
    for folder in parent.iterdir():
        if folder.name == own:
            continue
        with suppress(OSError):  # BlockingIOError: its run is alive
            if not folder.name.startswith(_ASIDE):
                os.close(take_lock(_lock_of(locks, folder.name)))
                _lock_of(locks, folder.name).unlink()
                folder = folder.rename(_aside(parent))
            stale.append(folder)
    return tuple(stale)


def _give_back(folder: Path, state: Path) -> None:
    parent = folder.parent
    with in_turn(_order(state / "locks")):
        aside = folder.rename(_aside(parent))
        _lock_of(state / "locks", folder.name).unlink()
    remove_tree(aside)
    with in_turn(_order(state / "locks")):
        parent.rmdir()  # fails while other runs have theirs in it


def _aside(parent: Path) -> Path:
    return parent / f"{_ASIDE}{secrets.token_hex(8)}"


def _pointer(state: Path) -> Path:
    return state / "short-tmp"


def _lock_of(locks: Path, name: str) -> Path:
    """Held by the run or node whose folder has this name."""
    return locks / f"tmp-{name}"


def _order(locks: Path) -> Path:
    """Held by who makes or renames a folder at this moment."""
    return locks / "tmp"
