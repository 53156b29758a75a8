"""Which agents of a run work in copies of the project, if they can; and what its end merges."""

import os

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.limits import DangerFullAccess, Isolation, RunIsolation
from swarm.roles.narrow import narrow_isolation, narrow_sandbox
from swarm.roles.role_loader import find_role

from ...isolation.copy_kind import find_copy_kind
from ...processes.machine_sandbox import SandboxMissing
from ...run_request import CopyKind, RunRequest
from ...runs.paths import find_user_paths
from ..options import RunOptions
from .run_settings import RunSettings

IN_TREES = (
    "no overlay can be had here, so agents in copies work in folders of their own, not at the "
    "project's path; installed packages are links to the project's; `swarm doctor` says what is "
    "missing"
)


def with_isolation(
    request: RunRequest, options: RunOptions, settings: RunSettings, warnings: list[str]
) -> RunRequest:
    """The request with what flag, task, configuration and roles say; the most of it counts.

    The root shares the project, unless its role says otherwise: it is the one that merges. With
    `auto`, where no copy can be had a warning says that agents share the project.

    Raises UsageError, and SandboxMissing where no copy can be had: nothing was started.
    """
    request = msgspec.structs.replace(request, merge=settings.config.merge)
    front, sandbox = settings.task.front, request.sandbox
    said = ("copy" if options.isolate else "shared", front.isolation, settings.config.isolation)
    own: RunIsolation = "copy" if "copy" in said else "auto" if "auto" in said else "shared"
    root = narrow_isolation(settings.role.isolation, sandbox=sandbox)
    items: Isolation = "shared"
    asked_items: Isolation = "shared"  # by more than `auto`
    if front.fan_out is not None:
        role = find_role(request.roles, front.fan_out.role)
        narrowed = narrow_sandbox(sandbox, role)
        asked_items = narrow_isolation(
            "copy" if own == "copy" else None,
            front.fan_out.isolation,
            role.isolation,
            sandbox=narrowed,
        )
        items = narrow_isolation(asked_items, "copy" if own == "auto" else None, sandbox=narrowed)
    if own == "shared" and "copy" not in (root, items):
        return request
    try:
        kind = _copy_kind(request)
    except (UsageError, SandboxMissing) as error:
        if "copy" in (own, root, asked_items):
            raise
        warnings.append(f"agents share the project, although isolation is auto: {error}")
        return request
    if kind == "tree":
        warnings.append(IN_TREES)
    return msgspec.structs.replace(
        request, isolation=own, root_isolation=root, fan_isolation=items, copy_kind=kind
    )


def _copy_kind(request: RunRequest) -> CopyKind:
    """Raises UsageError, SandboxMissing."""
    if isinstance(request.sandbox, DangerFullAccess):
        raise UsageError(
            "isolation: without a sandbox nothing holds agents to their copies; use "
            "--sandbox workspace-write"
        )
    if request.ephemeral:
        raise UsageError(
            "isolation: --ephemeral keeps nothing, so the work in copies would be lost"
        )
    return find_copy_kind(find_user_paths(dict(os.environ)).runs)
