"""The files of a batch job, opened by the supervisor for an agent: its table and its results.

The supervisor is not sandboxed, so both files keep to what the agent's own commands may read and
write. Each is checked once and held open from then on: a command that replaces a folder by a link,
or the table by a pipe, redirects neither.
"""

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from swarm.mailbox.base.path_rules import (
    KERNEL_TREES,
    PRIVATE_TREES,
    PROTECTED_NAMES,
    deepest_rule,
    is_explicitly_denied,
    is_within,
    may_read,
    may_write,
)
from swarm.mailbox.base.safe_open import (
    READ_FLAGS,
    OpenFolder,
    check_file_name,
    open_if_allowed,
    require_regular_file,
    resolve_links,
)
from swarm.mailbox.base.written_text import encoding_of
from swarm.mailbox.protocol.approvals import ExtraPermissions
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    ProfilePolicy,
    SandboxPolicy,
    WorkspaceWrite,
)

from ...agents.child_plan import AgentRequestError

MAX_BYTES = 64 << 20  # of a table; with the maximum of 100,000 rows, each may have 670 bytes
_OUTSIDE = (
    "the results cannot be written to {folder}: it is outside of what you may write; name another "
    "place in output_csv_path"
)


class FileAccess(Value):
    """Where an agent's own commands may read and write. Paths are canonical."""

    sandbox: SandboxPolicy
    roots: tuple[str, ...] = ()  # its working directory and the folders added to it
    hidden: tuple[str, ...] = ()
    granted: ExtraPermissions = ExtraPermissions()

    def may_read(self, path: str) -> bool:
        """`path` is canonical."""
        if any(is_within(path, tree) for tree in (*KERNEL_TREES, *self.hidden)):
            return False  # /proc shows the supervisor other things than it shows a command
        given = any(is_within(path, one) for one in (*self.granted.read, *self.granted.write))
        match self.sandbox:
            case DangerFullAccess():
                return True
            case ProfilePolicy() as policy:
                return may_read(policy, path) or (given and not is_explicitly_denied(policy, path))
            case _:
                shown = given or any(is_within(path, root) for root in self._workspace())
                return shown or not any(is_within(path, tree) for tree in PRIVATE_TREES)

    def may_write(self, path: str) -> bool:
        """`path` is canonical; below each root the protected names are read-only."""
        if not self.may_read(path):
            return False
        match self.sandbox:
            case DangerFullAccess():
                return True
            case ProfilePolicy() as policy:
                rule = deepest_rule(policy.rules, path)
                allowed = may_write(policy, path)
                roots: tuple[str, ...] = (rule.path,) if rule is not None and allowed else ()
            case WorkspaceWrite():
                roots = self._workspace()
            case _:
                roots = ()
        inside = [root for root in roots if is_within(path, root)]
        if not inside:
            return False
        below = path[len(max(inside, key=len)) :]
        return not any(step in PROTECTED_NAMES for step in below.split("/"))

    def _workspace(self) -> tuple[str, ...]:
        more = self.sandbox.writable_roots if isinstance(self.sandbox, WorkspaceWrite) else ()
        return (*self.roots, *map(os.path.realpath, more))


class TableFile:
    """A table file that is held open.

    Each `open` reads the same file from its start, whatever its name leads to by then. The caller
    closes it.
    """

    def __init__(self, path: Path, may: Callable[[str], bool]) -> None:
        """Raises AgentRequestError: it cannot be read, is no regular file, or is over 64 MiB."""
        self.path = path
        self._fd = -1
        try:
            self._fd = require_regular_file(open_if_allowed(path, may, READ_FLAGS))
        except OSError as error:
            raise AgentRequestError(f"failed to read csv input {path}: {error.strerror}") from error
        if os.fstat(self._fd).st_size > MAX_BYTES:
            self.close()
            raise AgentRequestError(f"csv input {path} is over {MAX_BYTES >> 20} MiB")

    def open(self) -> IO[str]:
        """The file as text. Reading raises OSError if the file has grown over the limit."""
        raw = io.BufferedReader(_PositionedReader(self._fd), 1 << 16)
        encoding = encoding_of(os.pread(self._fd, 4, 0))
        return io.TextIOWrapper(raw, encoding=encoding, newline="")

    def close(self) -> None:
        """May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _PositionedReader(io.RawIOBase):
    """A reader with its own position in a descriptor that others read, too."""

    def __init__(self, fd: int) -> None:
        self._fd, self._at = fd, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        count = os.preadv(self._fd, [buffer], self._at)
        self._at += count
        if self._at > MAX_BYTES:
            raise OSError(errno.EFBIG, f"it has grown over {MAX_BYTES >> 20} MiB")
        return count


class ResultsFile:
    """The results file: its folder is held open from the moment when it was checked."""

    def __init__(self, output: Path, reach: FileAccess) -> None:
        """Raises AgentRequestError: the agent may not write there, or there is no such folder."""
        self._access, self._name = reach, output.name
        try:
            check_file_name(output.name)
            folder = resolve_links(output.parent)
            self._check(folder)
            self._folder = OpenFolder(folder)
        except OSError as error:
            raise AgentRequestError(f"cannot write {output}: {error.strerror}") from error

    @property
    def path(self) -> Path:
        """Its present path: a command may have moved the folder."""
        return Path(self._folder.path, self._name)

    def write(self, write: Callable[[IO[bytes]], None]) -> None:
        """Replace the file in one step. Raises OSError; AgentRequestError if the folder moved."""
        self._check(self._folder.path)
        self._folder.replace(self._name, write)

    def close(self) -> None:
        self._folder.close()

    def _check(self, folder: str) -> None:
        if not self._access.may_write(f"{folder.rstrip('/')}/{self._name}"):
            raise AgentRequestError(_OUTSIDE.format(folder=folder))
