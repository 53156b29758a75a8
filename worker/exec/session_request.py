"""Builds the order for one command of a session: its environment, limits and route."""

import shlex
from collections.abc import Mapping

from swarm.mailbox.base.proxy_environment import without_proxy_variables
from swarm.mailbox.protocol.spec import AgentSpec

from ..sandbox.sandbox_plan import SandboxPlan
from .command_plan import (
    FORCED_VARIABLES,
    check_workdir,
    command_environment,
    is_in_copy,
    with_memory_limit,
)
from .command_route import RouteRequest
from .command_turn import CommandTurn
from .exec_outcome import ExecRequest
from .running_command import CommandRequest
from .unattended_variables import keep_unattended


def build_session_request(
    spec: AgentSpec,
    request: ExecRequest,
    plan: SandboxPlan,
    environment: dict[str, str],
    turn: CommandTurn | None,
) -> CommandRequest:
    """The command under this plan. Raises FolderHidden, OSError."""
    check_workdir(plan, request.cwd)
    if request.commits_in:
        from ..sandbox.commit_grant import with_commit_grant  # only few commands commit

        granted = with_commit_grant(plan, request.commits_in)
        if granted is not None and all(is_in_copy(spec, path) for path in granted.committing):
            plan = granted  # else git's folder lies outside of the agent's copy
    limit_bytes = None if turn is None else turn.memory_bytes
    return CommandRequest(
        argv=keep_unattended(request.argv),
        cwd=request.cwd,
        environment=environment,
        sandbox=plan,
        tty=request.tty,
        limits=request.limits,
        resources=with_memory_limit(spec.inherited.resources, limit_bytes),
        route=RouteRequest(
            endpoint=spec.proxy.endpoint,
            ticket=spec.proxy.ticket,
            command=shlex.join(request.argv),
        ),
    )


def session_environment(
    spec: AgentSpec, snapshot: Mapping[str, str] | None, own: Mapping[str, str], plan: SandboxPlan
) -> dict[str, str]:
    """The variables of a command; `snapshot`: of the login shell, once it was asked; `own` win."""
    extra = {**FORCED_VARIABLES, "SWARM_THREAD_ID": spec.agent_id, **own}
    base = snapshot if snapshot is not None else spec.environment
    if not plan.network:
        base = without_proxy_variables(base)
    return command_environment(base, spec.inherited.shell_environment, extra)
