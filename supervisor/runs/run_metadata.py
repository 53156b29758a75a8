"""A run's metadata on disk: `run.json`, its label, the folder's lock."""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION, Value

from .paths import RunPaths, close_state_folders, make_private_folder

MAX_NAME_CHARS = 80
_NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p"}
RunWork = Literal["run", "merge", "undo", "rollback"]
_WORK_WORDS = {
    "merge": "changes of agents are merged from",
    "undo": "files are put back from",
    "rollback": "turns are taken back in",
}  # of commands that change an ended run
_MOUNT_ESCAPE = re.compile(r"\\([0-7]{3})")  # escaped space, tab, newline or backslash


class RunMetadata(Value):
    """`run.json`: what `ps` lists without reading a journal. Rewritten at start and end."""

    schema_version: int
    run_id: str
    title: str
    task: str
    cwd: str
    pid: int
    started: float  # Unix seconds
    version: str
    status: str = "running"  # else RunCompleted.status
    ended: float | None = None
    result: str | None = None
    message: str = ""
    usage: TokenUsage = TokenUsage()
    usd: float | None = None
    agents: int = 0


def write_metadata(run_paths: RunPaths, about: RunMetadata) -> None:
    """Replace `run.json` in one step. Raises SwarmError if the folder cannot be written."""
    write_run_file(run_paths.metadata, msgspec.json.format(msgspec.json.encode(about)))


def read_metadata(run_paths: RunPaths) -> RunMetadata:
    """Raises UsageError for a folder that is no run, or of another version, and says which."""
    try:
        raw = run_paths.metadata.read_bytes()
        version = msgspec.json.decode(raw, type=dict[str, object]).get("schema_version")
        if version != SCHEMA_VERSION:
            raise UsageError(
                f"{run_paths.folder} was made by another version of swarm (schema {version}, this "
                f"is {SCHEMA_VERSION}); use that version, or `swarm rm "
                f"{short_id(run_paths.folder.name)}`"
            )
        return msgspec.json.decode(raw, type=RunMetadata)
    except FileNotFoundError as error:
        raise UsageError(f"{run_paths.folder} is not a run: it has no run.json") from error
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{run_paths.metadata} cannot be read: {error}") from error


class RunLabel(Value):
    """Every field has a default: most runs have no file."""

    name: str = ""
    archived: bool = False
    forked_from: str = ""  # a run's id


def read_label(run_paths: RunPaths) -> RunLabel:
    """The run's label. An unreadable file counts as none: nothing of the run depends on it."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode((run_paths.folder / "label.json").read_bytes(), type=RunLabel)
    return RunLabel()


def write_label(run_paths: RunPaths, label: RunLabel) -> None:
    """Replace the file in one step. Raises SwarmError if the folder cannot be written."""
    write_run_file(run_paths.folder / "label.json", msgspec.json.encode(label))


def find_runs_named(folders: Iterable[Path], name: str) -> list[str]:
    """Ids of the runs that have this name."""
    return [
        folder.name
        for folder in folders
        if read_label(RunPaths(folder=folder, sockets=folder)).name == name
    ]


def check_run_name(name: str) -> str:
    """The name with normalised blanks. Raises UsageError if it is too long or unprintable."""
    short = " ".join(name.split())
    if len(short) > MAX_NAME_CHARS or not short.isprintable():
        raise UsageError(f"a name has at most {MAX_NAME_CHARS} characters, all of them printable")
    return short


@contextmanager
def lock_run(run_paths: RunPaths, work: RunWork = "run") -> Iterator[int]:
    """Lock the run's folder; a second owner is refused. The kernel unlocks it when we die.

    `work`: what for; only "run" makes the run alive. The value is the lock's descriptor.
    """
    close_state_folders(run_paths)
    make_private_folder(run_paths.folder)
    try:
        fd = os.open(run_paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _write_error(run_paths.lock, error) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(_describe_owner(run_paths, _read_owner(fd))) from error
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode() if work == "run" else _note(work), 0)
        except OSError as error:
            with suppress(OSError):  # an otherwise empty folder would be listed as a run
                if [*run_paths.folder.iterdir()] == [run_paths.lock]:
                    run_paths.lock.unlink()
                    run_paths.folder.rmdir()
            raise _write_error(run_paths.lock, error) from error
        yield fd
        if work != "run":
            with suppress(OSError):
                os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _note(work: RunWork) -> bytes:
    return f"{os.getpid()} {work}".encode()


def _read_owner(fd: int) -> tuple[str, str]:
    """The owner's process, and its work."""
    pid, _, work = os.pread(fd, 32, 0).decode(errors="replace").strip().partition(" ")
    return pid or "?", work or "run"


def _describe_owner(run_paths: RunPaths, owner: tuple[str, str]) -> str:
    short, (pid, work) = short_id(run_paths.folder.name), owner
    if (doing := _WORK_WORDS.get(work)) is not None:
        return f"{doing} run {short} at this moment (process {pid}); try again when that is done"
    return f"run {short} is already being run by process {pid}; watch it with `swarm watch {short}`"


def describe_work(run_paths: RunPaths) -> str:
    """What a command does with an ended run at this moment; "" for nothing."""
    owner = _find_owner(run_paths)
    return "" if owner is None or owner[1] == "run" else _describe_owner(run_paths, owner)


def is_run_alive(run_paths: RunPaths) -> bool:
    """True if a supervisor holds the run's lock right now."""
    owner = _find_owner(run_paths)
    return owner is not None and owner[1] not in _WORK_WORDS


def is_run_locked(run_paths: RunPaths) -> bool:
    """True if a supervisor, or a command that changes an ended run, holds the lock right now."""
    return _find_owner(run_paths) is not None


def _find_owner(run_paths: RunPaths) -> tuple[str, str] | None:
    """Who holds the run's lock right now."""
    try:
        fd = os.open(run_paths.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_owner(fd)
    else:
        return None
    finally:
        os.close(fd)


def is_empty_run(run_paths: RunPaths) -> bool:
    """True for a folder without a record and without `run.json`."""
    try:
        has_records = any(file.stat().st_size for file in run_paths.journal.glob("*.jsonl"))
    except OSError:
        return False
    return not has_records and not run_paths.metadata.exists()


def network_filesystem_of(folder: Path) -> str | None:
    """The file system's type if `folder` is on one where locks are unsafe, else None."""
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="replace")
        return find_network_filesystem(str(folder.resolve()), mounts)
    except OSError:
        return None


def network_filesystem_warning(folder: Path) -> str:
    """What is said of a run's folder on such a file system; "" for another one."""
    kind = network_filesystem_of(folder)
    if kind is None:
        return ""
    return (
        f"{folder} lies on {kind}: locks are unsafe there; set SWARM_HOME or XDG_STATE_HOME to a "
        "local folder"
    )


def find_network_filesystem(path: str, mounts: str) -> str | None:
    """The same for a canonical path and a text like that of /proc/self/mounts."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _MOUNT_ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), fields[1])
        # A later mount covers an earlier one.
        if is_within(path, point) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind if kind in _NETWORK_FILESYSTEMS else None


def write_run_file(path: Path, data: bytes) -> None:
    """Replace a file of a run's folder in one step. Raises SwarmError if it cannot be written."""
    fresh = path.with_suffix(f".{os.getpid()}")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise _write_error(path, error) from error


def _write_error(path: Path, error: OSError) -> SwarmError:
    return SwarmError(
        f"cannot write {path}: {error.strerror}; free some space, make the folder writable, "
        "or set SWARM_HOME to another one"
    )
