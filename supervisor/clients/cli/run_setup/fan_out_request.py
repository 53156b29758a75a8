"""Adds a task's fan-out to the request: items, what they are told, and their narrower limits."""

from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from swarm.mailbox.base.path_rules import read_only_profile
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.values.limits import ProfilePolicy
from swarm.roles.rights.narrow import (
    narrow_approval,
    narrow_role_network,
    narrow_role_servers,
    narrow_role_sockets,
    narrow_sandbox,
)
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import UnusableRole, find_role

from ....base.file_excerpts import readable_below
from ....parts.fan_out.fan_out_items import find_items, item_texts
from ....request.run_request import FanOut, ItemAgents, RunRequest
from .request_parts import load_schema
from .role_briefs import brief_of
from .run_settings import RunSettings
from .task_file import FanOutTable


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
    if narrow_approval(request.approvals.approval, role.approval) != request.approvals.approval:
        raise UnusableRole(
            f"role `{role.name}` wants approval {role.approval}; set it for the whole run"
        )
    if isinstance(request.sandbox, ProfilePolicy):  # its command may read no more than agents may
        run_lines = partial(run_lines, policy=read_only_profile(request.sandbox))
    fan_out = _fan_out_of(table, settings, run_lines)
    agents = _item_agents(request, role, settings)
    texts = item_texts(
        fan_out.items,
        cwd=Path(settings.cwd),
        patterns=table.context,
        limit_bytes=table.context_bytes,
        may=readable_below(Path(settings.cwd), agents.sandbox or request.sandbox),
    )
    fan_out = msgspec.structs.replace(fan_out, agents=agents, texts=texts)
    return msgspec.structs.replace(request, fan_out=fan_out)


def _item_agents(request: RunRequest, role: Role, settings: RunSettings) -> ItemAgents:
    """What the agents of the items are: the run's, narrowed by their role."""
    return ItemAgents(
        role=brief_of(role, settings),
        model_settings=_item_model(request.model_settings, role),
        sandbox=narrow_sandbox(request.sandbox, role) if role.sandbox_mode else None,
        network=narrow_role_network(request.network, role),
        unix_sockets=narrow_role_sockets(request.unix_sockets, role),
        mcp=narrow_role_servers(request.mcp.root, role),
        budget=role.budget,
    )


def _item_model(run: ModelSettings, role: Role) -> ModelSettings:
    """Their role's settings, else the run's. Another provider has other models."""
    provider = None if role.model_provider == run.provider else role.model_provider
    return ModelSettings(
        model=role.model or (None if provider else run.model),
        effort=role.effort or run.effort,
        provider=provider,
        fallback=run.fallback if role.fallback is None else role.fallback,
        summary=role.summary or run.summary,
        verbosity=role.verbosity or run.verbosity,
    )


def _fan_out_of(table: FanOutTable, settings: RunSettings, run_lines: RunLines) -> FanOut:
    """Its items, and what they are asked."""
    found = find_items(table.each, cwd=Path(settings.cwd), run_lines=run_lines)
    schema = load_schema(table.output_schema, task_folder(settings), "fan_out.output_schema")
    return FanOut(
        items=found.items,
        prompt=table.prompt,
        rows=found.rows,
        role=table.role,
        concurrency=table.concurrency,
        output_schema=schema,
        retries=table.retries,
    )


def task_folder(settings: RunSettings) -> str:
    """The base of relative paths in the task."""
    return settings.task.folder or settings.cwd
