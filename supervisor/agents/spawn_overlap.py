"""Work that a spawn would do twice: a living agent's task, or files that it claims to write.

The model is told before the child starts. It may mean it: the same call again starts the child.
"""

import posixpath
from collections.abc import Iterable

from swarm.mailbox.base.ids import AgentPath, is_within

from .agent_directory import AgentDirectory
from .agent_record import Agent, AgentPlan
from .child_plan import AgentRequestError
from .claims import covers, shared_claims

AGAIN = "To start this child all the same, make the same call again."
_MAX_TOLD = 256  # spawns that were said back and not repeated
_MAX_NAMED = 5


class SpawnOverlapCheck:
    """Compares each spawn with the agents that work now or are about to."""

    def __init__(self, team: AgentDirectory) -> None:
        self._team = team
        self._told: dict[tuple[str, ...], None] = {}  # a dict keeps order: the oldest is dropped

    def check(self, plan: AgentPlan) -> None:
        """Raises AgentRequestError if the child would do others' work; not for a repeated call."""
        active = (one for one in self._team.members.values() if one.is_active)
        found = describe_overlap(plan, active)
        if not found:
            return
        key = (plan.path, plan.task_key, *_kind_of(plan), *plan.claims)
        if key in self._told:
            del self._told[key]
            return
        self._told[key] = None
        if len(self._told) > _MAX_TOLD:
            del self._told[next(iter(self._told))]
        raise AgentRequestError(f"not started: {found} {AGAIN}")


def describe_overlap(plan: AgentPlan, active: Iterable[Agent]) -> str:
    """What the child would do twice, for the model; "" for nothing.

    A task is the same if words, role and model are. What an agent claims it may hand on to those
    below it.
    """
    texts: list[str] = []
    for other in active:
        if is_same_task(plan, other.plan):
            texts.append(_same_task_text(plan, other))
        elif not is_within(AgentPath(plan.path), AgentPath(other.path)):
            shared = shared_claims(plan.claims, other.plan.claims)
            texts += [_shared_files_text(plan, other, shared)] if shared else []
        if len(texts) == _MAX_NAMED:
            break
    return " ".join(texts)


def is_same_task(mine: AgentPlan, other: AgentPlan) -> bool:
    """True if both were started for the same words, in the same role and with the same model."""
    return bool(mine.task_key) and (mine.task_key, *_kind_of(mine)) == (
        other.task_key,
        *_kind_of(other),
    )


def _kind_of(plan: AgentPlan) -> tuple[str, str, str]:
    asked = plan.model_settings
    return plan.role.name, asked.provider or "", asked.model or ""


def _same_task_text(plan: AgentPlan, other: Agent) -> str:
    if other.path == plan.parent:
        return "this is your own task, word for word: do it, or hand on a part of it."
    return (
        f"{other.path} ({other.status}) was started for the same task. Wait for its answer, or "
        "give the child another part of the work."
    )


def _shared_files_text(plan: AgentPlan, other: Agent, shared: list[str]) -> str:
    names = [_shown_path(path, plan.cwd) for path in shared[:_MAX_NAMED]]
    more = f" and {len(shared) - _MAX_NAMED} more" if len(shared) > _MAX_NAMED else ""
    claims = ", ".join(_shown_path(path, plan.cwd) for path in other.plan.claims[:_MAX_NAMED])
    return (
        f"it would write {', '.join(names)}{more}, and {other.path} ({other.status}) claims "
        f"{claims}. Give the child other files, or wait for {other.path}."
    )


def _shown_path(path: str, cwd: str) -> str:
    return posixpath.relpath(path, cwd) if covers(cwd, path) else path
