"""Rights beyond the sandbox: how a model writes them, and what an agent holds of them.

Rule guarded: a path is made absolute and canonical before anybody is asked about it, so that no
link says later what was allowed; the run's own folders and sockets cannot be asked for.
"""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from swarm.mailbox.protocol.approvals import ExtraPermissions, SandboxPermissions

from ..policy.permissions import NOTHING, is_empty, joined
from .errors import ToolFailed
from .spec import Schema

MOST_PATHS = 64
_MOST_PATH_CHARS = 4096
MISSING = (
    "missing `additional_permissions`; provide at least one of `network` or `file_system` when "
    "using `with_additional_permissions`"
)
EMPTY = (
    "`additional_permissions` must include at least one requested permission in `network` or "
    "`file_system`"
)
NOT_WANTED = (
    "`additional_permissions` requires `sandbox_permissions` set to `with_additional_permissions`"
)
_PATHS: Schema = {"type": "array", "items": {"type": "string"}}
PERMISSIONS_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "network": {
            "type": "object",
            "properties": {"enabled": {"type": "boolean"}},
            "additionalProperties": False,
        },
        "file_system": {
            "type": "object",
            "properties": {
                "read": {**_PATHS, "description": "Existing files or folders to read."},
                "write": {**_PATHS, "description": "Existing files or folders to write."},
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}


class NetworkWish(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool | None = None


class FileSystemWish(msgspec.Struct, frozen=True, kw_only=True):
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None


class PermissionsWish(msgspec.Struct, frozen=True, kw_only=True):
    """As models write it; everything may be left out."""

    network: NetworkWish | None = None
    file_system: FileSystemWish | None = None


def read_wish(
    wish: PermissionsWish, folder: Path, *, may_read: Callable[[Path], bool]
) -> ExtraPermissions:
    """The rights that are asked for; paths are relative to `folder`, and canonical afterwards.

    Raises ToolFailed: a path that cannot be given, or too many.
    """
    files = wish.file_system or FileSystemWish()
    read, write = files.read or (), files.write or ()
    if len(read) + len(write) > MOST_PATHS:
        raise ToolFailed(f"at most {MOST_PATHS} paths can be asked for at once")

    def canonical(path: str) -> str:
        if not path or "\0" in path or len(path) > _MOST_PATH_CHARS:
            raise ToolFailed(f"not a path that can be asked for: {path[:200]!r}")
        real = os.path.realpath(folder / path)
        if not may_read(Path(real)):
            raise ToolFailed(f"{path}: belongs to the run itself, and is never given")
        try:
            real.encode()
        except UnicodeEncodeError as error:
            raise ToolFailed(f"{path}: leads to a name that is not text") from error
        return real

    return ExtraPermissions(
        network=bool(wish.network and wish.network.enabled),
        read=tuple(dict.fromkeys(canonical(path) for path in read)),
        write=tuple(dict.fromkeys(canonical(path) for path in write)),
    )


def check_wish(permissions: SandboxPermissions, wish: PermissionsWish | None) -> None:
    """Raises ToolFailed where the two do not fit."""
    if permissions != "with_additional_permissions":
        if wish is not None:
            raise ToolFailed(NOT_WANTED)
    elif wish is None:
        raise ToolFailed(MISSING)
    elif not _asks_for_something(wish):
        raise ToolFailed(EMPTY)


def as_wish(permissions: ExtraPermissions) -> dict[str, object]:
    """The rights in the form in which models write them; what is not given is left out."""
    found: dict[str, object] = {}
    if permissions.network:
        found["network"] = {"enabled": True}
    files = {"read": list(permissions.read), "write": list(permissions.write)}
    files = {kind: paths for kind, paths in files.items() if paths}
    if files:
        found["file_system"] = files
    return found


class Held:
    """What an agent was granted beyond its sandbox: for its life, and for the turn that runs."""

    def __init__(self, granted: ExtraPermissions) -> None:
        self._lasting, self._passing, self._turn_id = granted, NOTHING, ""

    def enter_turn(self, turn_id: str) -> None:
        """What was granted for another turn is over."""
        if turn_id != self._turn_id:
            self._turn_id, self._passing = turn_id, NOTHING

    def add(self, permissions: ExtraPermissions, *, for_turn: bool) -> None:
        """Hold more."""
        if for_turn:
            self._passing = joined(self._passing, permissions)
        else:
            self._lasting = joined(self._lasting, permissions)

    @property
    def now(self) -> ExtraPermissions:
        """All that is held."""
        return self._lasting if is_empty(self._passing) else joined(self._lasting, self._passing)


def _asks_for_something(wish: PermissionsWish) -> bool:
    files = wish.file_system
    return bool((wish.network and wish.network.enabled) or (files and (files.read or files.write)))
