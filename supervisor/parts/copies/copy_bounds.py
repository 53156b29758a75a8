"""Whether an agent's copy holds all that its commands may write: else they would reach the disk.

Follows the links of the paths that a policy names, and reads nothing else.
"""

import os
from collections.abc import Iterable

from swarm.mailbox.base.path_rules import KERNEL_TREES, PRIVATE_TREES, is_within
from swarm.mailbox.protocol.values.limits import (
    ProfilePolicy,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)

from ...agents.agent_record import AgentPlan
from .tree_survey import CopyRefused


def sandbox_when_working(plan: AgentPlan) -> SandboxPolicy:
    """The agent's sandbox outside of plan mode: its copy outlasts that."""
    return (plan.allowed or plan.limits).sandbox


def starts_to_write(before: AgentPlan, after: AgentPlan) -> bool:
    """True for a change that lets an agent write which could only read."""
    policies = sandbox_when_working(before), sandbox_when_working(after)
    return isinstance(policies[0], ReadOnly) and not isinstance(policies[1], ReadOnly)


def find_path_outside(plan: AgentPlan, roots: Iterable[str]) -> str:
    """The first path that commands may write and that lies in no root of the copy; "" for none.

    A path counts by where it leads. Missing ones count as well, since somebody may make them.
    """
    held = tuple(roots)
    for path in _written_paths(sandbox_when_working(plan), plan.cwd, plan.add_dirs):
        real = os.path.realpath(path)
        if not any(is_within(real, root) for root in held) and not _is_replaced(real):
            return path
    return ""


def check_one_folder(plan: AgentPlan, roots: tuple[str, ...]) -> None:
    """Raises CopyRefused unless a copy in another folder can take the place of all that it writes.

    A path that the policy names would still lead to the project.
    """
    if names_folders(plan) or roots != (os.path.realpath(plan.cwd),):
        raise CopyRefused(
            "without overlays a copy is one folder, the working folder, and this agent's sandbox "
            "names others; `swarm doctor` says what is missing for overlays"
        )


def names_folders(plan: AgentPlan) -> bool:
    """True if its sandbox lets it write other folders than the one in which it works."""
    policy = sandbox_when_working(plan)
    is_plain = isinstance(policy, WorkspaceWrite) and not policy.writable_roots
    return bool(plan.add_dirs) or not is_plain


def _written_paths(policy: SandboxPolicy, cwd: str, add_dirs: tuple[str, ...]) -> tuple[str, ...]:
    match policy:
        case WorkspaceWrite(writable_roots=more):
            return (cwd, *add_dirs, *more)
        case ProfilePolicy(rules=rules):
            return tuple(rule.path for rule in rules if rule.access == "write")
        case _:
            return ()


def _is_replaced(real: str) -> bool:
    """True where a sandbox has a tree of its own, unless the path is one that it lets through."""
    if any(is_within(real, tree) for tree in KERNEL_TREES):
        return True
    is_private = any(is_within(real, tree) for tree in PRIVATE_TREES)
    return is_private and (real in PRIVATE_TREES or not os.path.lexists(real))
