"""Which agents of a run work in copies of the project, if they can; and what its end merges."""

import os
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Isolation,
    MergeAtEnd,
    ReadOnly,
    RunIsolation,
)
from swarm.roles.config.isolation_table import IsolationTable, isolation_table
from swarm.roles.rights.narrow import narrow_isolation, narrow_sandbox
from swarm.roles.role_loader import find_role

from ....parts.copies.copy_kind import find_copy_kind
from ....processes.machine_sandbox import SandboxMissing
from ....request.run_request import CopyKind, RunRequest, with_items
from ....runs.paths import find_user_paths
from .options import RunOptions
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

    The root shares the project, unless run or role say otherwise: it is the one that merges. With
    `auto`, where no copy can be had a warning says that agents share the project.

    Raises UsageError, and SandboxMissing where no copy can be had: nothing was started.
    """
    table = isolation_table(settings.config.isolation)
    request = _configured(request, table, settings.config.merge)
    front, sandbox = settings.task.front, request.sandbox
    own = most_isolated(options.isolate, front.isolation, table.mode)
    whole: Isolation = "copy" if own == "run" else "shared"
    root = narrow_isolation(settings.role.isolation, whole, sandbox=sandbox)
    items: Isolation = "shared"
    asked_items: Isolation = "shared"  # by more than `auto`
    if front.fan_out is not None:
        role = find_role(request.roles, front.fan_out.role)
        narrowed = narrow_sandbox(sandbox, role)
        asked_items = narrow_isolation(
            "copy" if own in ("copy", "run") else None,
            front.fan_out.isolation,
            role.isolation,
            sandbox=narrowed,
        )
        items = narrow_isolation(asked_items, "copy" if own == "auto" else None, sandbox=narrowed)
    if own == "shared" and "copy" not in (root, items):
        return request
    if own == "run" and isinstance(sandbox, ReadOnly):
        copies = replace(request.copies, isolation=own)
        return replace(request, copies=copies)  # nobody can write
    try:
        kind = _copy_kind(request)
    except (UsageError, SandboxMissing) as error:
        if own != "auto" or "copy" in (root, asked_items):
            raise
        warnings.append(f"agents share the project, although isolation is auto: {error}")
        return request
    if kind == "tree":
        warnings.append(IN_TREES)
    if own == "run":
        warnings += servers_beside(request.mcp.servers, request.cwd)
    copies = replace(request.copies, isolation=own, root_isolation=root, copy_kind=kind)
    request = replace(request, copies=copies)
    return with_items(request, lambda one: replace(one, isolation=items))


def _configured(request: RunRequest, table: IsolationTable, merge: MergeAtEnd) -> RunRequest:
    copies = replace(
        request.copies, merge=merge, prepare=table.prepare, prepare_inputs=table.prepare_inputs
    )
    return replace(request, copies=copies)


def most_isolated(*said: RunIsolation | None) -> RunIsolation:
    """What counts of flag, task and configuration; `children` is the new name of `copy`."""
    known = {"copy" if one == "children" else one for one in said}
    order: tuple[RunIsolation, ...] = ("run", "copy", "auto")
    for one in order:
        if one in known:
            return one
    return "shared"


def servers_beside(servers: Iterable[McpServer], cwd: str) -> Iterator[str]:
    """Warnings of MCP servers that may write the project while the run is in a copy of it."""
    for one in servers:
        roots = (*one.writable_roots, *(() if one.sandboxed else ("/",)))
        if one.command and any(is_within(cwd, root) or is_within(root, cwd) for root in roots):
            yield (
                f"the MCP server {one.name} sees the project itself and may write there: it is not "
                "held to the copy; `enabled = false` leaves it out"
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
