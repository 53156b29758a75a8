"""Permissions beyond the sandbox: the model's arguments, and those granted to an agent.

A path is made absolute and canonical before approval is requested, so that a link cannot change
later what was approved. The run's own folders and sockets cannot be requested.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Struct

from swarm.mailbox.protocol.approvals import ExtraPermissions, SandboxPermissions

from ...policy.permission_sets import NO_PERMISSIONS, is_empty, union
from .function_tool import described
from .tool_interface import ToolFailed

MAX_PATHS = 64
_MAX_PATH_CHARS = 4096
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


class NetworkPermissionArgument(Struct, frozen=True, kw_only=True):
    enabled: bool | None = None


class FileSystemPermissionArgument(Struct, frozen=True, kw_only=True):
    read: Annotated[tuple[str, ...] | None, described("Existing paths.")] = None
    write: Annotated[tuple[str, ...] | None, described("Existing paths.")] = None


class PermissionsArgument(Struct, frozen=True, kw_only=True):
    """Permissions as models write them; every field is optional."""

    SORTED: ClassVar = False  # models are told of the network first

    network: NetworkPermissionArgument | None = None
    file_system: FileSystemPermissionArgument | None = None


def resolve_permissions(
    argument: PermissionsArgument, folder: Path, *, may_read: Callable[[Path], bool]
) -> ExtraPermissions:
    """Return the requested permissions; paths are relative to `folder` and become canonical.

    Raises ToolFailed for a path that cannot be granted, or for too many paths.
    """
    files = argument.file_system or FileSystemPermissionArgument()
    read, write = files.read or (), files.write or ()
    if len(read) + len(write) > MAX_PATHS:
        raise ToolFailed(f"at most {MAX_PATHS} paths can be asked for at once")

    def canonical(path: str) -> str:
        if not path or "\0" in path or len(path) > _MAX_PATH_CHARS:
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
        network=bool(argument.network and argument.network.enabled),
        read=tuple(dict.fromkeys(canonical(path) for path in read)),
        write=tuple(dict.fromkeys(canonical(path) for path in write)),
    )


def check_permissions_argument(
    permissions: SandboxPermissions, argument: PermissionsArgument | None
) -> None:
    """Raise ToolFailed if the two arguments do not match."""
    if permissions != "with_additional_permissions":
        if argument is not None:
            raise ToolFailed(NOT_WANTED)
    elif argument is None:
        raise ToolFailed(MISSING)
    elif not _asks_for_something(argument):
        raise ToolFailed(EMPTY)


def permissions_as_argument(permissions: ExtraPermissions) -> dict[str, object]:
    """Return the permissions as models write them; empty fields are omitted."""
    found: dict[str, object] = {}
    if permissions.network:
        found["network"] = {"enabled": True}
    files = {"read": list(permissions.read), "write": list(permissions.write)}
    files = {kind: paths for kind, paths in files.items() if paths}
    if files:
        found["file_system"] = files
    return found


class GrantedPermissions:
    """Permissions granted beyond the sandbox: lasting ones and those of this turn."""

    def __init__(self, granted: ExtraPermissions) -> None:
        self._lasting, self._for_turn, self._turn_id = granted, NO_PERMISSIONS, ""

    def enter_turn(self, turn_id: str) -> None:
        """Drop the permissions that were granted for another turn."""
        if turn_id != self._turn_id:
            self._turn_id, self._for_turn = turn_id, NO_PERMISSIONS

    def add(self, permissions: ExtraPermissions, *, for_turn: bool) -> None:
        """Add granted permissions."""
        if for_turn:
            self._for_turn = union(self._for_turn, permissions)
        else:
            self._lasting = union(self._lasting, permissions)

    @property
    def now(self) -> ExtraPermissions:
        """All permissions held now."""
        return self._lasting if is_empty(self._for_turn) else union(self._lasting, self._for_turn)


def _asks_for_something(argument: PermissionsArgument) -> bool:
    files = argument.file_system
    return bool(
        (argument.network and argument.network.enabled) or (files and (files.read or files.write))
    )
