"""Assembles the approval queue of one run: broker, answers, and the endpoint for agents' requests.

Only a person's answer has an effect outside the run: it can save a rule.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import trio

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.host_patterns import with_port
from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.approvals import ApprovalGrant, ApprovalRequest, NetworkAction
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.records import GrantGiven

from ..agents.live_agent import AgentPlan, LiveAgent
from ..journal.journal_reader import run_records
from ..run_context import RunContext
from .approval_answers import AnswerEffects, ApprovalAnswers
from .approval_endpoint import ApprovalEndpoint, OverruleNotifier, RunApprovalJournal
from .approval_grants import ANY_REPOSITORY, ApprovalsPast, fold_approvals
from .broker import AskSettings, Broker
from .saved_rules import send_rules_to_all


class ApprovalQueue(NamedTuple):
    """What other parts of the supervisor use. `broker.reviewer` is set if there is a reviewer."""

    broker: Broker
    answers: ApprovalAnswers
    endpoint: ApprovalEndpoint


class AgentLookup(NamedTuple):
    """How the queue looks up the requesting agent."""

    plan: Callable[[str], AgentPlan | None]
    live_agent: Callable[[str], LiveAgent | None]
    live_agents: Callable[[], Iterable[LiveAgent]]


def open_approval_queue(
    running: RunContext, nursery: trio.Nursery, known: AgentLookup, *, config: Path, resumed: bool
) -> ApprovalQueue:
    """Make the queue. A resumed run takes its grants and open requests from the journal.

    Args:
        running: Its `grants` are filled here.
        nursery: Runs the tasks that serve agents' requests.
        known: Finds agents by path.
        config: The user's configuration folder; rules are saved in its `rules/`.
        resumed: True if the run has an earlier journal.
    """
    past = fold_approvals(run_records(running.paths)) if resumed else ApprovalsPast()
    rules = AskSettings(timeout_s=running.request.approval_timeout_s)

    def limits_of(path: str) -> Limits | None:
        plan = known.plan(path)
        return None if plan is None else plan.limits

    _add_initial_grants(running)
    broker = Broker(RunApprovalJournal(running), limits_of, running.grants, past, rules)
    broker.unix_s = running.entropy.unix_s

    async def save(request: ApprovalRequest) -> str:
        return await trio.to_thread.run_sync(save_rule, config / "rules", request)

    async def spread() -> None:
        await send_rules_to_all(running, tuple(known.live_agents()))

    teller = OverruleNotifier(running, nursery, known.live_agent)
    answers = ApprovalAnswers(
        broker, AnswerEffects(save_rule=save, spread_rules=spread, notify_overruled=teller.notify)
    )
    return ApprovalQueue(
        broker=broker, answers=answers, endpoint=ApprovalEndpoint(running, broker, nursery)
    )


def _add_initial_grants(running: RunContext) -> None:
    """Add what the person allowed the whole tree when the run was started."""
    if not running.request.allow_commit:
        return
    grant = ApprovalGrant(grant_id="commit", path=ROOT_PATH, below=True, commits_in=ANY_REPOSITORY)
    running.grants.add(grant)
    running.note(GrantGiven(grant=grant))


def save_rule(folder: Path, request: ApprovalRequest) -> str:
    """Save the rule that "always" stands for; returns the file. Blocks. Raises SwarmError."""
    from swarm.roles.rules.rule_writer import append_network_rule, append_prefix_rule

    action = request.action
    try:
        if isinstance(action, NetworkAction):
            host = with_port(action.host, action.port)
            path = append_network_rule(folder, host, action.protocol, "allow")
        else:
            path = append_prefix_rule(folder, request.proposed_prefix)
    except OSError as error:
        raise SwarmError(f"cannot write {error.filename}: {error.strerror}") from error
    return str(path)
