"""A run's past and its agents' limits, with their paths as they are after a move. Pure."""

from msgspec.structs import replace

from swarm.mailbox.protocol.values.limits import (
    Limits,
    ProfilePolicy,
    SandboxPolicy,
    WorkspaceWrite,
)

from ..journal.replay import AgentPast, RunPast
from ..runs.folder_moves import Moves, moved


def moved_policy(policy: SandboxPolicy, moves: Moves) -> SandboxPolicy:
    match policy:
        case WorkspaceWrite(writable_roots=roots):
            return replace(policy, writable_roots=tuple(moved(one, moves) for one in roots))
        case ProfilePolicy():
            return replace(
                policy,
                rules=tuple(replace(one, path=moved(one.path, moves)) for one in policy.rules),
                deny_globs=tuple(moved(one, moves) for one in policy.deny_globs),
                workspace=tuple(moved(one, moves) for one in policy.workspace),
            )
        case _:
            return policy


def moved_limits(limits: Limits, moves: Moves) -> Limits:
    return replace(limits, sandbox=moved_policy(limits.sandbox, moves))


def moved_past(past: RunPast, moves: Moves) -> RunPast:
    """The past of a run, as if its agents had always worked where the folder is now."""
    if not moves:
        return past
    agents = {path: _moved_agent(agent, moves) for path, agent in past.agents.items()}
    return replace(past, agents=agents)


def _moved_agent(agent: AgentPast, moves: Moves) -> AgentPast:
    spawned, settings = agent.spawned, agent.settings
    spawned = replace(
        spawned,
        cwd=moved(spawned.cwd, moves),
        limits=moved_limits(spawned.limits, moves),
        claims=tuple(moved(one, moves) for one in spawned.claims),
    )
    if settings is not None:
        allowed = settings.allowed
        settings = replace(
            settings,
            cwd=moved(settings.cwd, moves),
            limits=moved_limits(settings.limits, moves),
            allowed=None if allowed is None else moved_limits(allowed, moves),
        )
    return replace(agent, spawned=spawned, settings=settings)
