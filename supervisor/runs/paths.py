"""Where files are: XDG folders or `$SWARM_HOME`, and one run's folder and sockets."""

import os
import stat
import tempfile
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import RunId, short_id
from swarm.mailbox.base.private_files import make_own_folders

from ..base.part_names import HIDDEN_FOLDERS
from .short_tmp import find_short_folder

SYSTEM_FOLDERS = (Path("/etc/swarm"),)
_CA_FOLDER = "proxy"  # in the state folder, beside the runs
_LOGINS_FOLDER = "mcp-logins"  # likewise
_PROGRAMS_FOLDER = "mcp-programs"  # likewise
_LOCKS_FOLDER = "locks"  # likewise


class UserPaths(msgspec.Struct, frozen=True, kw_only=True):
    """The user's folders. A folder is created only when something is written there."""

    config: Path
    state: Path
    cache: Path
    runtime: Path
    # The administrator's folders. The first one is always read: a variable can only add a folder,
    # so nobody escapes the requirements through the environment.
    system: tuple[Path, ...] = SYSTEM_FOLDERS

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def models(self) -> Path:
        return self.cache / "models"

    @property
    def ca_key(self) -> Path:
        """The key of the network proxy's CA: no command ever sees it."""
        return self.state / _CA_FOLDER / "ca.key"

    @property
    def logins(self) -> Path:
        """The logins with MCP servers: no command ever sees them."""
        return self.state / _LOGINS_FOLDER

    @property
    def server_programs(self) -> Path:
        """What MCP servers in projects consisted of: no command ever sees it."""
        return self.state / _PROGRAMS_FOLDER

    @property
    def locks(self) -> Path:
        """Locks of projects: no command ever sees them, so none can hold one."""
        return self.state / _LOCKS_FOLDER

    @property
    def part_folders(self) -> tuple[Path, ...]:
        """What parts keep for all runs: no command ever sees it."""
        return tuple(self.state / name for name in HIDDEN_FOLDERS)

    @property
    def hidden(self) -> tuple[str, ...]:
        """What no command ever sees: sockets, journals, keys, logins, locks, what parts keep, and
        other runs' temporary files. Reads one small file.
        """
        own = (self.runtime, self.runs, self.ca_key, self.logins, self.server_programs, self.locks)
        files = (*own, *self.part_folders)
        short = find_short_folder(self.state)
        return tuple(map(str, files if short is None else (*files, short)))


def find_user_paths(environment: dict[str, str]) -> UserPaths:
    """The folders for this environment (README.md, "Files"). Reads no file."""
    if home := environment.get("SWARM_HOME"):
        base = Path(home).absolute()
        return UserPaths(
            config=base,
            state=base / "state",
            cache=base / "cache",
            runtime=_runtime_folder(environment),
            system=(*SYSTEM_FOLDERS, base / "system"),
        )
    user = Path(environment.get("HOME") or Path.home())

    def folder(variable: str, default: str) -> Path:
        value = environment.get(variable, "")
        return (Path(value) if value.startswith("/") else user / default) / "swarm"

    return UserPaths(
        config=folder("XDG_CONFIG_HOME", ".config"),
        state=folder("XDG_STATE_HOME", ".local/state"),
        cache=folder("XDG_CACHE_HOME", ".cache"),
        runtime=_runtime_folder(environment),
    )


def _runtime_folder(environment: dict[str, str]) -> Path:
    base = environment.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/") and Path(base).is_dir():
        return Path(base) / "swarm"
    return Path(tempfile.gettempdir()) / f"swarm-{os.getuid()}"


class RunPaths(msgspec.Struct, frozen=True, kw_only=True):
    """One run's files. `sockets` exists only while the run is alive."""

    folder: Path
    sockets: Path
    own_folders: tuple[Path, ...] = ()  # above it, those that `find_user_paths` made for swarm

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def project_locks(self) -> Path:
        """The file of all projects' locks, shared by all runs."""
        return self.state / _LOCKS_FOLDER / "projects"

    @property
    def unfinished_merge(self) -> Path:
        """There while a merge writes, and after one that was cut off."""
        return self.folder / "unfinished-merge.json"

    @property
    def metadata(self) -> Path:
        return self.folder / "run.json"

    @property
    def owner_file(self) -> Path:
        """Names the process that holds the run; see `folder_watch`."""
        return self.sockets / "owner"

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs"

    @property
    def diffs(self) -> Path:
        return self.folder / "diffs"

    @property
    def mcp_logs(self) -> Path:
        """What MCP servers wrote."""
        return self.folder / "mcp"

    @property
    def mcp_results(self) -> Path:
        """Long results of MCP tools, by address."""
        return self.folder / "mcp_results"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    @property
    def ca_folder(self) -> Path:
        """The network proxy's certificates; one folder for all runs."""
        return self.folder.parent.parent / _CA_FOLDER

    @property
    def state(self) -> Path:
        """swarm's folder of state, for what all runs share."""
        return self.folder.parent.parent

    @property
    def logins(self) -> Path:
        """The logins with MCP servers; one folder for all runs."""
        return self.state / _LOGINS_FOLDER

    @property
    def server_programs(self) -> Path:
        """What MCP servers in projects consisted of; one folder for all runs."""
        return self.state / _PROGRAMS_FOLDER

    @property
    def kept_apart(self) -> tuple[Path, ...]:
        """Folders of all runs that no command ever sees, even if it may write all around them."""
        return (
            self.logins,
            self.server_programs,
            self.project_locks.parent,
            *(self.state / one for one in HIDDEN_FOLDERS),
        )

    @property
    def uncopied(self) -> tuple[str, ...]:
        """What the history of files never looks into and keeps no copy of, by canonical paths."""
        own = (self.folder.parent, self.sockets.parent, self.ca_folder, *self.kept_apart)
        return tuple(os.path.realpath(one) for one in own)

    @property
    def file_copies(self) -> Path:
        return self.folder / "kept"

    @property
    def copies(self) -> Path:
        """Copies of the project, and the layers of agents that work in one."""
        return self.folder / "copies"

    @property
    def copy_trees(self) -> Path:
        """Copies of the project that are folders of their own: no run's folder is seen by commands,
        and these are.
        """
        return self.state / "copies" / self.folder.name

    @property
    def mailbox_endpoint(self) -> str:
        return f"ipc://{self.sockets}/s"

    @property
    def control_endpoint(self) -> str:
        return f"ipc://{self.sockets}/c"

    @property
    def feed_endpoint(self) -> str:
        return f"ipc://{self.sockets}/f"

    @property
    def proxy_socket(self) -> str:
        """The network proxy's socket: a plain path, no ZeroMQ endpoint."""
        return f"{self.sockets}/n"

    def gateway_endpoint(self, epoch: int) -> str:
        return f"ipc://{self.sockets}/g{epoch}"


def paths_of_run(user_paths: UserPaths, run_id: RunId | str) -> RunPaths:
    """The paths of a run; nothing is created."""
    return RunPaths(
        folder=user_paths.runs / run_id,
        sockets=user_paths.runtime / short_id(run_id),
        own_folders=(user_paths.state, user_paths.runs),
    )


def make_private_folder(folder: Path) -> Path:
    """Create `folder` with mode 0700, or check that it is ours and close it to others.

    Raises SwarmError that names the folder when it belongs to someone else, is shared as /tmp is,
    or cannot be made.
    """
    try:
        make_own_folders(folder)
        facts = folder.lstat()
    except OSError as error:
        raise SwarmError(
            f"cannot create the folder {folder}: {error.strerror}; "
            "make it writable or set SWARM_HOME to a folder that is"
        ) from error
    if stat.S_ISLNK(facts.st_mode) or facts.st_uid != os.getuid():
        raise SwarmError(f"{folder} belongs to someone else; remove it or set XDG_RUNTIME_DIR")
    if facts.st_mode & stat.S_ISVTX:
        raise SwarmError(f"{folder} is shared with others, so swarm does not keep its files in it")
    if facts.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def close_state_folders(run_paths: RunPaths) -> None:
    """Make the folders above a run's, or close those that an earlier version left open to others.

    One that a person has replaced by a link stays a link, and a folder that is not swarm's own, or
    is shared as /tmp is, keeps its mode. Raises SwarmError.
    """
    runs = run_paths.folder.parent
    try:
        for folder in (runs.parent, runs):
            make_own_folders(folder)
            facts = folder.stat()
            is_shared = bool(facts.st_mode & stat.S_ISVTX) or folder not in run_paths.own_folders
            if not is_shared and facts.st_uid == os.getuid() and facts.st_mode & 0o077:
                folder.chmod(stat.S_IMODE(facts.st_mode) & 0o700)
    except OSError as error:
        raise SwarmError(
            f"cannot make {runs}: {error.strerror}; make it writable or set SWARM_HOME to a folder "
            "that is"
        ) from error


def find_run(user_paths: UserPaths, wanted: str | None, *, broken: bool = False) -> RunId:
    """Find a run by full id, by a unique head or tail of one, by name, or None for the newest.

    `broken`: also consider folders without `run.json`, as `ps` lists them. Raises UsageError when
    none or several fit, and says how to list them.
    """
    folders = user_paths.runs.iterdir() if user_paths.runs.is_dir() else ()
    known = sorted(entry.name for entry in folders
                   if (broken and entry.is_dir()) or (entry / "run.json").exists())  # fmt: skip
    if not known:
        raise UsageError("there is no run yet; start one with `swarm run TASK.md`")
    if wanted is None:
        return RunId(known[-1])
    fits = [run for run in known if run.startswith(wanted) or run.endswith(wanted)]
    if wanted in known or len(fits) == 1:
        return RunId(wanted if wanted in known else fits[0])
    if not fits:
        from .run_metadata import find_runs_named  # rare: opens a file per run

        fits = find_runs_named((user_paths.runs / run for run in known), wanted)
        if len(fits) == 1:
            return RunId(fits[0])
    if not fits:
        raise UsageError(f"no run {wanted!r}; `swarm ps` lists them")
    names = ", ".join(short_id(run) for run in fits[:5])
    raise UsageError(f"{wanted!r} fits {len(fits)} runs ({names}); give more of the id")
