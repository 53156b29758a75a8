"""Assembles the approval queue of one run: broker, people's answers, the endpoint for agents.

Only a person's answer has an effect outside the run: it can save a rule.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.approvals import ApprovalGrant, ApprovalRequest, McpToolAction
from swarm.mailbox.protocol.ops import Notice
from swarm.mailbox.protocol.records import AnyRecordBody, GrantGiven, Record
from swarm.mailbox.protocol.values.limits import Limits

from ...agents.agent_record import Agent, AgentPlan
from ...agents.life.agent_manager import AgentManager
from ...context.run_context import RunContext
from ...context.saved_rules import save_rule, send_rules_to_all
from ...request.run_request import RunRequest
from ..approval_grants import ANY_REPOSITORY, ApprovalsPast
from ..approval_types import AutoReviewer
from ..broker import AskSettings, Broker
from ..refusal_texts import granted_notice
from ..tool_approvals import McpToolQuestions
from .approval_answers import ApprovalAnswers
from .approval_endpoint import ApprovalEndpoint
from .permission_hooks import PermissionHooks

_APPROVING_EVENTS = ("PreToolUse", "PermissionRequest")


class ApprovalQueue(NamedTuple):
    """What other parts of the supervisor use."""

    broker: Broker
    hooked: PermissionHooks  # for requests that no agent's process made: its hooks are asked first
    answers: ApprovalAnswers
    endpoint: ApprovalEndpoint


def open_approval_queue(
    running: RunContext,
    nursery: trio.Nursery,
    agents: AgentManager,
    plan_of: Callable[[str], AgentPlan | None],
    *,
    past: ApprovalsPast,
    config: Path,
    reviewer: AutoReviewer | None = None,
) -> ApprovalQueue:
    """Make the queue. A resumed run takes its grants and open requests from its past.

    Args:
        running: Its `grants` are filled here.
        nursery: Runs the tasks that serve agents' requests.
        agents: The live agents.
        plan_of: The plan of an agent by its path, whether it has a process now or not.
        past: What the journal of a resumed run says of approvals.
        config: The user's configuration folder; rules are saved in its `rules/`.
        reviewer: Decides where an agent's limits name the guardian.
    """
    request = running.request
    tools = _tool_questions(running, config, past)
    settings = AskSettings(
        tools=tools,
        timeout_s=request.approvals.approval_timeout_s,
        reviewer=reviewer,
        unix_s=running.entropy.unix_s,
        hooks_for=partial(_hooks_for, _approving_hooks(request), plan_of),
    )

    def limits_of(path: str) -> Limits | None:
        plan = plan_of(path)
        return None if plan is None else plan.limits

    _add_initial_grants(running)
    broker = Broker(partial(_write_record, running), limits_of, running.grants, past, settings)
    effects = _RunEffects(running, nursery, agents, partial(_save_always, config / "rules", tools))
    hooked = PermissionHooks(running, broker)
    return ApprovalQueue(
        broker=broker,
        hooked=hooked,
        answers=ApprovalAnswers(broker, effects),
        endpoint=ApprovalEndpoint(running, broker, hooked, nursery),
    )


def _approving_hooks(request: RunRequest) -> frozenset[str]:
    return frozenset(
        hook.hook_id
        for hook in request.inherited.hooks
        if hook.may_allow and hook.event in _APPROVING_EVENTS
    )


def _hooks_for(
    approving: frozenset[str], plan_of: Callable[[str], AgentPlan | None], path: str
) -> frozenset[str]:
    """None for a locked role: that a hook allowed something is the agent's own word."""
    plan = plan_of(path)
    return frozenset() if plan is None or plan.role.locked else approving


def _tool_questions(running: RunContext, config: Path, past: ApprovalsPast) -> McpToolQuestions:
    servers = {one.name: one for one in running.request.mcp.servers}
    return McpToolQuestions(servers, config / "config.toml", past.mcp_tools)


class _RunEffects:
    """The `AnswerEffects` of a run."""

    def __init__(
        self,
        running: RunContext,
        nursery: trio.Nursery,
        agents: AgentManager,
        save: Callable[[ApprovalRequest], str],
    ) -> None:
        self._run, self._nursery, self._agents, self._save = running, nursery, agents, save

    async def save_rule(self, request: ApprovalRequest) -> str:
        return await trio.to_thread.run_sync(self._save, request)

    async def spread_rules(self) -> None:
        await send_rules_to_all(self._run, tuple(self._agents.agents.values()))

    def notify_overruled(self, path: str, approval_id: str) -> None:
        if (agent := self._agents.agents.get(path)) is not None:
            self._nursery.start_soon(self._send_notice, agent, granted_notice(approval_id))

    async def _send_notice(self, agent: Agent, text: str) -> None:
        try:
            notice = Notice(notice_id=self._run.entropy.new_id(), text=text)
            await self._run.send(agent, notice)
        except PeerGone:
            return


def _save_always(rules: Path, tools: McpToolQuestions, request: ApprovalRequest) -> str:
    """What "always" stands for, as a setting of a tool or a rule; what was saved, in words."""
    if isinstance(request.action, McpToolAction):
        return tools.save(request.action)
    return save_rule(rules, request)


def _write_record(
    running: RunContext,
    body: AnyRecordBody,
    *,
    agent: str,
    then: Callable[[Record], None] | None = None,
) -> None:
    def written(record: Record) -> None:
        running.broadcast.publish_record(record)
        if then is not None:
            then(record)

    running.journal.write(body, agent=agent, then=written)


def _add_initial_grants(running: RunContext) -> None:
    """Add what the person allowed the whole tree when the run was started."""
    if not running.request.inherited.allow_commit:
        return
    grant = ApprovalGrant(grant_id="commit", path=ROOT_PATH, below=True, commits_in=ANY_REPOSITORY)
    running.grants.add(grant)
    running.note(GrantGiven(grant=grant))
