"""Merges at an agent's request: of what agents below it changed, within what it may write.

The agent's own process has judged the merge as a patch, and has had it approved where that is
needed. What a process that is confined, or an agent that may not write, asks for is refused here.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.moved_path import moved_path
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.changes import FileChange, bounded_changes
from swarm.mailbox.protocol.control import NOTHING_TO_MERGE, Done, MergeChanges
from swarm.mailbox.protocol.requests import (
    MergeCopies,
    MergePlanned,
    MergeReported,
    MergeRequest,
    MergeWritten,
    RequestRefused,
)
from swarm.mailbox.protocol.values.limits import DangerFullAccess, ReadOnly

from ....agents.agent_record import Agent
from ....context.run_context import RunContext
from ...undo.content_store import ContentStore
from ...undo.live.file_history import FileHistory
from ...undo.net_changes import NetChange
from ...undo.tree_walk import roots_of
from ...undo.unified_diff import diff_lines
from ..copy_folder import AgentCopy
from ..merge_plan import MergePlan
from ..merge_service import CopiedWork
from ..merge_summary import describe_plan
from .live_merges import find_working, merge_in_live_run
from .merges_in_copies import begin_merge_in_copy, end_merge_in_copy, find_mounted

MAX_RESOLVED, MAX_RESOLVED_CHARS = 200, 4_000_000  # of one merge
_MAX_CONFLICT_CHARS = 60_000  # of all texts with marks
HOW_ON = (
    "with a conflict nothing is merged: call merge_changes again with `resolved`, the whole "
    "content of each file in conflict, or with agents that have no conflict"
)


async def serve_merge_request(
    running: RunContext, history: FileHistory, agent: Agent, request: MergeRequest
) -> MergePlanned | MergeReported | RequestRefused:
    """Plan or carry out a merge for this agent. What has begun goes on if its turn is cut off."""
    if why := refusal_of(agent):
        return RequestRefused(message=why)
    if isinstance(request, MergeWritten):
        return await end_merge_in_copy(running, history, agent, request)
    try:
        names = await trio.to_thread.run_sync(_find_copies, running, agent, request.targets)
        if not names:
            return _nothing(request)
        resolved = await trio.to_thread.run_sync(_resolved_paths, running, agent, request.resolved)
        if not isinstance(request, MergeCopies):
            await running.journal.flush()
            plan = partial(_plan, running, agent, names, resolved)
            return await trio.to_thread.run_sync(plan)
    except (SwarmError, OSError, ValueError) as error:
        return RequestRefused(message=str(error))
    order = MergeChanges(
        agents=names, discard=request.discard, tested=request.tested, resolved=resolved
    )
    if not order.discard and await trio.to_thread.run_sync(find_mounted, running, agent):
        return await begin_merge_in_copy(running, history, agent, order)
    done = await merge_in_live_run(running, history, order, partial(_check_inside, agent))
    if isinstance(done, Done):
        return MergeReported(text=done.message)
    return RequestRefused(message=done.message)


def _nothing(request: MergeRequest) -> MergePlanned | MergeReported:
    if isinstance(request, MergeCopies):
        return MergeReported(text=NOTHING_TO_MERGE)
    return MergePlanned(text=NOTHING_TO_MERGE)


def refusal_of(agent: Agent) -> str:
    """Why this agent merges nothing; "" if it may."""
    limits = agent.plan.limits
    if agent.plan.role.locked or limits.planning or isinstance(limits.sandbox, ReadOnly):
        return "an agent that may not write merges nothing"
    return ""


def _find_copies(running: RunContext, agent: Agent, targets: Sequence[str]) -> tuple[str, ...]:
    """The named agents, or all whose work has ended. Raises SwarmError: one is not its to merge."""
    work = CopiedWork(running.paths)
    below = [one.path for one in work.agents() if _may_merge(running, agent, one)]
    if not targets:
        busy = trio.from_thread.run_sync(find_working, running, work)
        return tuple(path for path in below if path not in busy)
    names = tuple(_full_path(agent, one, below) for one in targets)
    for name in names:
        if name not in below:
            known = ", ".join(below) or "none"
            raise SwarmError(
                f"{name[:200]} is not an agent of yours in a copy; there are: {known} "
                "(what copies of an agent's copy have goes there first)"
            )
    return names


def _may_merge(running: RunContext, agent: Agent, copy: AgentCopy) -> bool:
    """True for agents below it, and below its parent if that is what its role is for: if their
    copies are copies of what it writes itself.
    """
    path = copy.path
    in_copy = agent.plan.limits.isolation == "copy"
    if copy.above != (agent.plan.agent_id if in_copy else ""):
        return False
    role = running.request.roles.known.get(agent.plan.role.name)
    if role is not None and role.merges and agent.plan.parent is not None:
        return path.startswith(f"{agent.plan.parent}/") and path != agent.path
    return path.startswith(f"{agent.path}/")


def _full_path(agent: Agent, name: str, known: Sequence[str]) -> str:
    """A name is that of an own agent, else of one beside it."""
    if name.startswith("/"):
        return name
    paths = [f"{above}/{name}" for above in (agent.path, agent.plan.parent) if above is not None]
    return next((path for path in paths if path in known), paths[0])


def _resolved_paths(
    running: RunContext, agent: Agent, resolved: Mapping[str, str]
) -> dict[str, str]:
    """By absolute paths of the project. Raises SwarmError if it is too much; OSError."""
    if len(resolved) > MAX_RESOLVED or sum(map(len, resolved.values())) > MAX_RESOLVED_CHARS:
        raise SwarmError(
            f"at most {MAX_RESOLVED} files and {MAX_RESOLVED_CHARS:,} characters can be resolved"
        )
    root, tree = _tree_of(CopiedWork(running.paths), agent) if resolved else ("", "")
    return {
        moved_path(os.path.normpath(os.path.join(agent.plan.cwd, path)), tree, root): text  # noqa: PTH118 - text
        for path, text in resolved.items()
    }


def find_outside(agent: Agent, plan: MergePlan) -> str:
    """A path of the plan that the agent may not write; "" if there is none."""
    own = agent.plan
    if isinstance(own.limits.sandbox, DangerFullAccess):
        return ""
    roots = roots_of(own.limits.sandbox, own.cwd, own.add_dirs)
    for _, after in plan.totals:
        place = os.path.realpath(os.path.dirname(after.path))  # noqa: PTH120 - text
        if not any(is_within(place, root) for root in roots):
            return after.path
    return ""


def _check_inside(agent: Agent, plan: MergePlan) -> None:
    """Raises SwarmError if the agent may not write a path of the plan."""
    if outside := find_outside(agent, plan):
        raise SwarmError(f"{outside} is not yours to write; a person merges it with `swarm merge`")


def _plan(
    running: RunContext, agent: Agent, names: tuple[str, ...], resolved: Mapping[str, str]
) -> MergePlanned:
    """Plan beside the work of all others: what is written is compared with this plan again.

    Raises SwarmError, OSError, ValueError. Blocks.
    """
    work = CopiedWork(running.paths)
    report = work.check(names, resolved=resolved)
    if not report.changes:
        return MergePlanned(text=NOTHING_TO_MERGE)
    tree = _tree_of(work, agent)
    _check_inside(agent, report.plan)
    lines = list(describe_plan(report.plan, report.changes))
    conflicts = len(report.plan.conflicts)
    if conflicts:
        lines += _conflict_texts(report.plan, work.store)
        lines += trio.from_thread.run_sync(_tasks_in_conflict, running, report.plan)
        lines.append(HOW_ON)
    return MergePlanned(
        text="\n".join(lines),
        agents=tuple(change.agent for change in report.changes),
        conflicts=conflicts,
        digest=report.plan.digest,
        changes=bounded_changes(_file_changes(report.plan, work.store, agent.plan.cwd, tree)),
    )


def _conflict_texts(plan: MergePlan, store: ContentStore) -> list[str]:
    """Files with both sides between git's marks, as far as there is room."""
    found: list[str] = []
    left = _MAX_CONFLICT_CHARS
    for one in plan.conflicts:
        if not one.merged:
            continue
        text = store.read_bytes(one.merged).decode("utf-8", "replace")
        if len(text) > left:
            found.append(f"{one.path}: too long to be shown here")
            continue
        left -= len(text)
        found.append(f"{one.path}, with both sides:\n{text}")
    return found


def _tasks_in_conflict(running: RunContext, plan: MergePlan) -> list[str]:
    """What the agents on both sides were to do, as far as it is known."""
    paths = dict.fromkeys(path for one in plan.conflicts for path in (*one.others, one.agent))
    agents = (running.agents.find(path) for path in paths)
    return [f"the task of {one.path}: {one.last_task}" for one in agents if one and one.last_task]


def _tree_of(work: CopiedWork, agent: Agent) -> tuple[str, str]:
    """The project and the folder that is the agent's copy of it; without one, ("", "")."""
    copy = work.folder.find(agent.plan.agent_id)
    return (copy.roots[0].path, copy.tree) if copy is not None and copy.tree else ("", "")


def _file_changes(
    plan: MergePlan, store: ContentStore, cwd: str, tree: tuple[str, str]
) -> Iterator[FileChange]:
    """What the merge does to each file where the agent writes it, with whole diffs."""
    for before, after in plan.totals:
        if "folder" in (before.kind, after.kind):
            continue
        edit = NetChange(after.path, before, after, (before, after), set())
        diff = "\n".join((*diff_lines(edit, store, cwd), ""))
        yield FileChange(path=moved_path(after.path, *tree), kind=_kind(edit), unified_diff=diff)


def _kind(edit: NetChange) -> Literal["add", "delete", "update"]:
    if edit.before.kind == "absent":
        return "add"
    return "delete" if edit.after is not None and edit.after.kind == "absent" else "update"
