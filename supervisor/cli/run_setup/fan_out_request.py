"""Adds a task's fan-out to the request: items, what they are told, and their narrower limits."""

from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from swarm.mailbox.path_rules import read_only_profile
from swarm.mailbox.protocol.limits import ProfilePolicy
from swarm.roles.narrow import (
    narrow_approval,
    narrow_role_network,
    narrow_role_servers,
    narrow_role_sockets,
    narrow_sandbox,
)
from swarm.roles.role_loader import UnusableRole, find_role

from ...fan_out.fan_out_items import find_items, item_texts
from ...fan_out.file_excerpts import readable_below
from ...run_request import FanOut, RunRequest
from ...task_file import FanOutTable
from .request_parts import load_schema
from .role_briefs import brief_of
from .run_settings import RunSettings


class RunLines(Protocol):
    """Runs a fan-out's command in a folder, in the read-only sandbox; returns its output."""

    def __call__(
        self, command: str, cwd: Path, /, *, policy: ProfilePolicy | None = None
    ) -> str: ...


def with_fan_out(request: RunRequest, settings: RunSettings, run_lines: RunLines) -> RunRequest:
    """The request with the task's fan-out. Raises UsageError."""
    table = settings.task.front.fan_out
    assert table is not None
    role = find_role(request.roles, table.role)
    if narrow_approval(request.approval, role.approval) != request.approval:
        raise UnusableRole(
            f"role `{role.name}` wants approval {role.approval}; set it for the whole run"
        )
    if isinstance(request.sandbox, ProfilePolicy):  # its command may read no more than agents may
        run_lines = partial(run_lines, policy=read_only_profile(request.sandbox))
    return msgspec.structs.replace(
        request,
        fan_role=brief_of(role, settings),
        fan_sandbox=narrow_sandbox(request.sandbox, role) if role.sandbox_mode else None,
        fan_network=narrow_role_network(request.network, role),
        fan_unix_sockets=narrow_role_sockets(request.unix_sockets, role),
        mcp=msgspec.structs.replace(request.mcp, items=narrow_role_servers(request.mcp.root, role)),
        fan_model=role.model,
        fan_effort=role.effort,
        fan_summary=role.summary,
        fan_verbosity=role.verbosity,
        fan_provider=None if role.model_provider == request.provider else role.model_provider,
        fan_fallback=request.fallback if role.fallback is None else role.fallback,
        fan_budget=role.budget,
        fan_out=_fan_out_of(table, request, settings, run_lines),
    )


def _fan_out_of(
    table: FanOutTable, request: RunRequest, settings: RunSettings, run_lines: RunLines
) -> FanOut:
    """Its items, and what they are told."""
    cwd = Path(settings.cwd)
    found = find_items(table.each, cwd=cwd, run_lines=run_lines)
    schema = load_schema(table.output_schema, task_folder(settings), "fan_out.output_schema")
    return FanOut(
        items=found.items,
        prompt=table.prompt,
        rows=found.rows,
        role=table.role,
        concurrency=table.concurrency,
        output_schema=schema,
        retries=table.retries,
        texts=item_texts(
            found.items,
            cwd=cwd,
            patterns=table.context,
            limit_bytes=table.context_bytes,
            may=readable_below(cwd, request.fan_sandbox or request.sandbox),
        ),
    )


def task_folder(settings: RunSettings) -> str:
    """The base of relative paths in the task."""
    return settings.task.folder or settings.cwd
