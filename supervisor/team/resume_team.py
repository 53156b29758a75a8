"""Restores a resumed run's team from the run's own records. No I/O.

Agents that were working continue from their files. Those that had finished can be asked again.
Those that were ended for good stay so.
"""

import re

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.roles.rights.narrow import narrow_budget
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import Roles, find_role

from ..agents.agent_phases import Phase
from ..agents.agent_record import Agent, AgentPlan, AgentSnapshot
from ..agents.child_plan import child_brief
from ..agents.settings_change import with_settings
from ..journal.replay import AgentPast, RunPast

JOB_WORKER = re.compile(r"(job|judge)_[0-9a-f]{8}_[0-9]+(_[0-9]+)?\Z")  # names of workers


def restore_team(past: RunPast, roles: Roles, root: AgentPlan) -> list[tuple[AgentPlan, AgentPast]]:
    """All agents but the root and the workers of fan-outs and jobs, parents before children."""
    plans: dict[str, AgentPlan] = {ROOT_PATH: root}
    found: list[tuple[AgentPlan, AgentPast]] = []
    items = past.plan.names if past.plan is not None else ()
    for path in sorted(past.agents):
        agent = past.agents[path]
        parent = plans.get(agent.spawned.parent or "")
        if path == ROOT_PATH or parent is None or _is_item(path, items):
            continue
        plans[path] = plan = _plan_of(agent, parent, roles)
        found.append((plan, agent))
    return found


def restored_agent(plan: AgentPlan, past: AgentPast) -> Agent:
    """An agent of the run's earlier part; an unfinished one is about to be woken."""
    ended = None if past.is_unfinished else past.ended
    phase = Phase.ENDED
    if ended is None:
        phase = Phase.NEW
    elif ended.state == "killed":
        phase = Phase.CLOSED
    kept = AgentSnapshot(
        plan=plan,
        closed=phase is Phase.CLOSED,
        epoch=past.spawned.epoch,
        outcome=ended,
        usd=past.usd,
    )
    return Agent.restored(kept, phase)


def _is_item(path: str, items: tuple[str, ...]) -> bool:
    """Workers report to the fan-out or to a job, which repeat unfinished rows themselves."""
    steps = path.split("/")
    return JOB_WORKER.match(steps[-1]) is not None or (
        len(steps) == 3 and any(_is_attempt_of(steps[2], name) for name in items)
    )


def _is_attempt_of(step: str, name: str) -> bool:
    return step == name or (
        step.startswith(f"{name}_") and step[len(name) + 1 :].removeprefix("try").isdigit()
    )


def _plan_of(agent: AgentPast, parent: AgentPlan, roles: Roles) -> AgentPlan:
    spawned = agent.spawned
    own = spawned.limits.budget
    try:
        role = find_role(roles, spawned.role)
        own = role.budget
    except UsageError:  # its role file is gone; its instructions are in its history
        role = Role(name=spawned.role)
    plan = AgentPlan(
        path=spawned.path,
        agent_id=spawned.agent_id,
        role=child_brief(parent.role, role),
        limits=msgspec.structs.replace(
            spawned.limits,  # except for the run's limits, which are today's
            budget=narrow_budget(parent.limits.budget, own),
            deadline_unix_s=parent.limits.deadline_unix_s,
        ),
        cwd=spawned.cwd or parent.cwd,
        parent=spawned.parent,
        depth=spawned.depth,
        model_settings=msgspec.structs.replace(
            parent.model_settings,
            model=spawned.model,
            effort=spawned.effort,
            provider=spawned.provider,
            fallback=spawned.fallback,
        ),
        nickname=spawned.nickname,
        add_dirs=parent.add_dirs,
        host=spawned.node.partition("/")[0],
        resources=spawned.resources,
        claims=spawned.claims,
        task_key=spawned.task_key,
    )
    return with_settings(plan, agent.settings, parent.limits)
