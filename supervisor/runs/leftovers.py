"""Finds and ends leftover processes of dead runs, which should have ended themselves. For `doctor`.

It cannot end a foreign process: a leftover belongs to our user, is known by its title or variable,
and its run is held by nobody. The process is pinned (pidfd) and checked again before it is
signalled.
"""

import errno
import os
import re
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.process_tree import is_zombie, kill_descendants
from swarm.mailbox.protocol.values.base import Value

from .folder_watch import RunOwner, is_lock_gone, process_start_ticks, read_owner
from .paths import RunPaths, UserPaths
from .run_metadata import is_run_locked

_TITLE = re.compile(
    r"swarm: (?:(?:launcher of )?(?:/root\S* \[[^\]]*\]|spare)|gateway|fork-server)"
    r"(?: ([0-9a-f]{8}))?\Z"
)
_COMMAND_VARIABLE = b"SWARM_COMMAND="  # in the environment of every command that an agent runs
_PARENT, _SESSION = 1, 3  # fields of proc(5) stat, counted after the name


class Leftover(Value):
    """One leftover process. `started` (clock ticks) tells it from a later one with the same pid."""

    pid: int
    started: int
    title: str
    run: str = ""  # short id; "" if it knew no run yet, and for commands


class Leftovers(Value):
    """What `doctor` lists."""

    processes: tuple[Leftover, ...] = ()
    folders: tuple[str, ...] = ()  # socket folders of runs that nobody holds


def find_leftovers(user_paths: UserPaths) -> Leftovers:
    """Search /proc and the runtime folder. Changes nothing."""
    folders = _stale_socket_folders(user_paths)
    return Leftovers(processes=tuple(_find_processes(user_paths)), folders=folders)


def end_leftovers(found: Leftovers, user_paths: UserPaths) -> Leftovers:
    """End what is still as it was found; return what was ended and removed."""
    processes = tuple(one for one in found.processes if _end(one, user_paths))
    still = set(_stale_socket_folders(user_paths))
    folders = tuple(name for name in found.folders if name in still)
    for name in folders:
        shutil.rmtree(name, ignore_errors=True)
    return Leftovers(processes=processes, folders=folders)


def _find_processes(user_paths: UserPaths) -> list[Leftover]:
    ours = _ancestors(os.getpid())
    found: list[Leftover] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in ours:
            leftover = _find_leftover(int(entry.name), user_paths)
            if leftover is not None:
                found.append(leftover)
    known = {one.pid for one in found}
    found += [one for one in _lost_supervisors(user_paths) if one.pid not in known | {*ours}]
    return sorted(found, key=lambda one: one.pid)


def _lost_supervisors(user_paths: UserPaths) -> Iterator[Leftover]:
    """Supervisors whose run's folder is gone: nobody sees them, and nobody else can end them.

    The owner file in the socket folder and the process's start time prove it: no command can write
    there. A title proves nothing.
    """
    for folder in _socket_folders(user_paths):
        owner = read_owner(folder / "owner")
        if owner is not None and (lost := _lost_supervisor(owner, run=folder.name)) is not None:
            yield lost


def _lost_supervisor(owner: RunOwner, *, run: str) -> Leftover | None:
    try:
        is_same = process_start_ticks(owner.pid) == owner.started and not is_zombie(owner.pid)
        if not is_same or not _is_our_user(owner.pid):
            return None
    except (OSError, ValueError, IndexError):
        return None
    lock = Path(owner.folder) / "lock"
    if short_id(lock.parent.name) != run or not is_lock_gone(lock, owner.device, owner.inode):
        return None
    return Leftover(pid=owner.pid, started=owner.started, title=f"supervisor of {run}", run=run)


def _find_leftover(pid: int, user_paths: UserPaths) -> Leftover | None:
    """The leftover with this pid, or None. A process that cannot be read belongs to others."""
    try:
        if not _is_our_user(pid) or is_zombie(pid):
            return None
        title, started = _title(pid), process_start_ticks(pid)
        match = _TITLE.match(title)
        if match:
            run = match[1] or ""
            dead = _is_run_dead(run, lambda: _is_orphan(pid), user_paths)
            return Leftover(pid=pid, started=started, title=title, run=run) if dead else None
        if _is_command(pid) and not any(_TITLE.match(_title(one)) for one in _ancestors(pid)):
            return Leftover(pid=pid, started=started, title=title)
    except (OSError, ValueError, IndexError):
        return None
    return None


def _is_run_dead(run: str, is_orphan: Callable[[], bool], user_paths: UserPaths) -> bool:
    """A known run is dead when nobody holds its lock; for an unknown one `is_orphan` decides."""
    folders = [one for one in _run_folders(user_paths) if run and short_id(one.name) == run]
    if folders:
        return not any(_is_locked(folder) for folder in folders)
    return is_orphan()


def _is_orphan(pid: int) -> bool:
    """True if the tree's topmost titled process has a parent in another session.

    A living supervisor is the parent of that process and shares its session.
    """
    top = pid
    while (parent := _stat(top, _PARENT)) > 1 and _TITLE.match(_title(parent)):
        top = parent
    return parent < 1 or _stat(parent, _SESSION) != _stat(top, _SESSION)


def _end(leftover: Leftover, user_paths: UserPaths) -> bool:
    try:
        pidfd = os.pidfd_open(leftover.pid)
    except OSError:
        return False
    try:  # pinned: from here on the pid cannot be reused
        if leftover not in (
            _find_leftover(leftover.pid, user_paths),
            *_lost_supervisors(user_paths),
        ):
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
        kill_descendants(leftover.pid)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def _stale_socket_folders(user_paths: UserPaths) -> tuple[str, ...]:
    held = {short_id(one.name) for one in _run_folders(user_paths) if _is_locked(one)}
    known = {short_id(one.name) for one in _run_folders(user_paths)}
    return tuple(
        str(folder)
        for folder in _socket_folders(user_paths)
        if folder.name in known - held or (folder.name not in known and _has_lost_owner(folder))
    ) + tuple(map(str, _model_folders()))


def _model_folders() -> Iterator[Path]:
    """What earlier versions left of the embedded model: our folders with only a dead socket."""
    with suppress(OSError):
        for folder in sorted(Path(tempfile.gettempdir()).glob("swarm-*")):
            if not _is_our_folder(folder):
                continue
            with suppress(OSError):
                if [one.name for one in folder.iterdir()] == ["llm.sock"] and _has_no_listener(
                    folder / "llm.sock"
                ):
                    yield folder


def _has_no_listener(path: Path) -> bool:
    """True for a socket on which nobody listens."""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as caller:
        caller.setblocking(False)
        return caller.connect_ex(str(path)) == errno.ECONNREFUSED


def _has_lost_owner(folder: Path) -> bool:
    """True if this folder's owner process has ended, or holds a run whose folder is gone."""
    if (owner := read_owner(folder / "owner")) is None:
        return False
    try:
        if process_start_ticks(owner.pid) != owner.started:
            return True
    except OSError:
        return True
    return _lost_supervisor(owner, run=folder.name) is not None


def _socket_folders(user_paths: UserPaths) -> list[Path]:
    try:
        return [one for one in sorted(user_paths.runtime.iterdir()) if _is_our_folder(one)]
    except OSError:
        return []


def _is_our_folder(folder: Path) -> bool:
    facts = folder.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()


def _run_folders(user_paths: UserPaths) -> list[Path]:
    try:
        return [entry for entry in user_paths.runs.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _is_locked(folder: Path) -> bool:
    return is_run_locked(RunPaths(folder=folder, sockets=folder))


def _is_our_user(pid: int) -> bool:
    """Checks the status file, not /proc's folder owner: that is root for undumpable processes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("Uid:"):
            return set(line.split()[1:]) == {str(os.getuid())}
    return False


def _is_command(pid: int) -> bool:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(entry.startswith(_COMMAND_VARIABLE) for entry in entries)


def _title(pid: int) -> str:
    raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    return raw.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def _stat(pid: int, field: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[field])


def _ancestors(pid: int) -> list[int]:
    """`pid` itself, its parent, and so on."""
    found = [pid]
    with suppress(OSError, ValueError):
        while (parent := _stat(found[-1], _PARENT)) > 0:
            found.append(parent)
    return found
