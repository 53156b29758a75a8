"""The goal of a run that is about to start: from its task file and command line, checked.

The project's files are looked at before any agent has seen them: what its check consists of now is
what later changes are told against. Blocks.
"""

import os

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.safe_open import exists_no_follow
from swarm.mailbox.parts.goals.goal_messages import Goal, GoalSettings
from swarm.mailbox.protocol.values.limits import DangerFullAccess
from swarm.roles.config.part_keys import PartFront, PartOptions
from swarm.roles.parts.goals.goal_table import GoalTable, check_goal
from swarm.roles.role_loader import find_role

from ...request.run_request import RunRequest
from .project_files import look_at_project


def goal_settings(request: RunRequest, front: PartFront, options: PartOptions) -> GoalSettings:
    """What task file and options say; options win. Raises UsageError that says what is wrong."""
    protect = _protected(request, (*front.protect, *options.protect))
    goal = _goal(request, front.goal, options)
    if not goal.text:
        return GoalSettings(protect=protect)
    check_goal(goal)
    if goal.judge:
        _check_judge(request, goal.judge)
    search = request.environment.get("PATH", "")
    files = look_at_project(request.cwd, goal.verify, protect, search=search)
    return GoalSettings(goal=goal, protect=protect, check_files=files.checks)


def _goal(request: RunRequest, table: GoalTable | None, options: PartOptions) -> Goal:
    wanted = table or GoalTable()
    named = (options.goal, options.goal_rounds, options.judge)
    if table is None and named == (None, None, None) and not options.verify:
        return Goal()
    if options.goal is not None:
        wanted = msgspec.structs.replace(wanted, text=options.goal)
    if options.verify:
        wanted = msgspec.structs.replace(wanted, verify=options.verify)
    if options.goal_rounds is not None:
        wanted = msgspec.structs.replace(wanted, rounds=options.goal_rounds)
    if options.judge is not None:
        wanted = msgspec.structs.replace(wanted, judge=options.judge)
    return wanted.goal(task=request.prompt)


def _check_judge(request: RunRequest, role: str) -> None:
    if request.team.max_agents == 1:
        raise UsageError("goal.judge: a judge is an agent, and this run may have only one")
    if request.roles.known and role not in request.roles.known:
        find_role(request.roles, role)


def _protected(request: RunRequest, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Canonical paths. Raises UsageError for one that could not be kept."""
    if not paths:
        return ()
    if isinstance(request.sandbox, DangerFullAccess):
        raise UsageError("protect: without a sandbox nothing keeps agents from changing files")
    root = os.path.realpath(request.cwd)
    found: dict[str, None] = {}
    for name in paths:
        path = os.path.realpath(os.path.join(root, name))  # noqa: PTH118
        if path == root or not is_within(path, root):
            raise UsageError(f"protect: {name} is not in {root}")
        if not exists_no_follow(path):
            raise UsageError(f"protect: there is no {name} in {root}; only what is there is kept")
        found[path] = None
    return tuple(found)
