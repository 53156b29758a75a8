"""list_changes, merge_changes, discard_changes: what agents in copies have changed, and its merge.

Offered to agents that may start others in copies: of the project that they share, or of their own
copy. The supervisor plans and writes, but into a copy that is mounted only its agent's process can.
A merge is judged here as a patch with the same files would be, on the plan that it writes.
"""

from functools import partial
from typing import Annotated

import msgspec
import trio

from swarm.mailbox.protocol.approvals import PatchAction
from swarm.mailbox.protocol.events import AnyCallDetail, PatchCall
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.requests import (
    MergeCopies,
    MergePlanned,
    MergeReported,
    MergeWritten,
    PlanMerge,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.limits import ReadOnly

from ..parts.copies.merge_program import run_merge_program
from ..policy.approval_offers import patch_keys
from ..policy.command_decision import Ask, PolicyDecision, Run
from .apply_patch import judge_changes
from .interface.function_tool import decode_arguments, described
from .interface.team_client import TeamClient, TeamInvocation, TeamTool
from .interface.tool_context import ToolContext
from .interface.tool_interface import Invocation, OnOutput, Proposal, ToolFailed, ToolResult

_LIMIT_S = 660.0  # a plan may take five minutes, and the merge plans again
_MAX_DIFF_CHARS = 40_000  # of list_changes, for the model
AgentNames = Annotated[tuple[str, ...], described("Names of your agents, in this order.")]


class ListChangesArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: Annotated[str | None, described("Default: all whose work has ended.")] = None


class ResolvedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    content: Annotated[str, described("The whole file.")]


class MergeChangesArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agents: AgentNames
    check: Annotated[bool, described("Only say what would happen.")] = False
    resolved: Annotated[
        tuple[ResolvedFile, ...] | None, described("What files in conflict are to become.")
    ] = None


class DiscardChangesArguments(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    agent: str


class CopiesTool(TeamTool):
    """A tool of an agent that others work for in copies."""

    def __init__(self, team: TeamClient, context: ToolContext) -> None:
        super().__init__(team)
        self._context = context

    def is_offered(self, model: ModelInfo) -> bool:
        spec = self._team.spec
        if spec.limits.isolation == "shared":
            is_for = spec.team.offers_copies
        else:  # whom it starts works in copies of its copy
            is_for = not isinstance(spec.limits.sandbox, ReadOnly)
        return super().is_offered(model) and is_for

    async def _plan(self, request: PlanMerge) -> MergePlanned:
        return await self._team.request(
            request, MergePlanned, limit_s=_LIMIT_S, waiting="plans a merge"
        )


class ListChangesTool(CopiesTool):
    """Says what there is to merge."""

    name = "list_changes"
    arguments = ListChangesArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        agent = decode_arguments(call, ListChangesArguments).agent
        targets = (agent,) if agent else ()
        return TeamInvocation(agent or "all", partial(self._list, targets))

    async def _list(self, targets: tuple[str, ...]) -> ToolResult:
        planned = await self._plan(PlanMerge(targets=targets))
        diff = "".join(change.unified_diff for change in planned.changes)
        if len(diff) > _MAX_DIFF_CHARS:
            left = len(diff) - _MAX_DIFF_CHARS
            diff = f"{diff[:_MAX_DIFF_CHARS]}\n… {left} characters more\n"
        text = f"{planned.text}\n\n{diff}".rstrip()
        return ToolResult(content=text, shown=planned.text)


class MergeChangesTool(CopiesTool):
    """Merges agents' changes into the project."""

    name = "merge_changes"
    arguments = MergeChangesArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, MergeChangesArguments)
        if not given.agents:
            raise ToolFailed("name the agents whose changes are to be merged")
        resolved = {one.path: one.content for one in given.resolved or ()}
        planned = await self._plan(PlanMerge(targets=given.agents, resolved=resolved))
        if given.check or planned.conflicts or not planned.changes:
            failed = bool(planned.conflicts) and not given.check
            result = ToolResult(content=planned.text, status="failed" if failed else "completed")
            return TeamInvocation(", ".join(given.agents), partial(_answer, result))
        request = MergeCopies(targets=planned.agents, tested=planned.digest, resolved=resolved)
        return MergeInvocation(self._context, self._team, planned, request)


class DiscardChangesTool(CopiesTool):
    """Gives an agent's change up."""

    name = "discard_changes"
    arguments = DiscardChangesArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        agent = decode_arguments(call, DiscardChangesArguments).agent
        if self._context.write_plan() is None:
            raise ToolFailed("an agent that may not write gives up no change")
        request = MergeCopies(targets=(agent,), discard=True)
        return TeamInvocation(agent, partial(_send, self._team, request))


class MergeInvocation:
    """One planned merge. It needs the approval that a patch of the same files would need."""

    def __init__(
        self, context: ToolContext, team: TeamClient, planned: MergePlanned, request: MergeCopies
    ) -> None:
        self._context, self._team, self._planned = context, team, planned
        self._request = request
        self._files = tuple(change.path for change in planned.changes)

    @property
    def detail(self) -> AnyCallDetail:
        return PatchCall(changes=self._planned.changes)

    def judge(self) -> PolicyDecision:
        with self._context.gate.merging():
            return judge_changes(self._context, self._files)

    def propose(self, ask: Ask) -> Proposal:
        action = PatchAction(
            cwd=self._context.spec.cwd, files=self._files, changes=self._planned.changes
        )
        return Proposal(action=action, keys=patch_keys(self._files))

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        result = await _send(self._team, self._request)
        return msgspec.structs.replace(result, changes=self._planned.changes)


async def _send(team: TeamClient, request: MergeCopies) -> ToolResult:
    done = await team.request(request, MergeReported, limit_s=_LIMIT_S, waiting="merges")
    if done.program:  # into the agent's own copy, which nobody else can write
        result = await run_merge_program(done.program)
        written = MergeWritten(merge_id=done.merge_id, result=result)
        with trio.CancelScope(shield=True):  # bounded: it is written, and must be said
            done = await team.request(written, MergeReported, waiting="merges")
    return ToolResult(content=done.text)


async def _answer(result: ToolResult) -> ToolResult:
    return result
