"""Rules that a person saves during the run: written to a file and sent to every live agent.

An action that a saved rule covers is not asked about again, by any agent. An agent process that
starts at the same moment also receives the rule. Reviewers have no rules.
"""

from collections.abc import Iterable
from pathlib import Path

import trio

from swarm.mailbox.base.errors import PeerGone, SwarmError
from swarm.mailbox.base.host_patterns import with_port
from swarm.mailbox.protocol.approvals import ApprovalRequest, NetworkAction
from swarm.mailbox.protocol.rules import RuleSet

from ..agents.agent_record import Agent
from .run_context import RunContext

_SEND_TIMEOUT_S = 5.0  # a slow agent gets the rest with the next rule or process


def save_rule(folder: Path, request: ApprovalRequest) -> str:
    """Save the rule that "always" stands for; returns where. Blocks. Raises SwarmError."""
    from swarm.roles.rules.rule_writer import append_network_rule, append_prefix_rule

    action = request.action
    try:
        if isinstance(action, NetworkAction):
            host = with_port(action.host, action.port)
            path = append_network_rule(folder, host, action.protocol, "allow")
        else:
            path = append_prefix_rule(folder, request.proposed_prefix, exact=request.proposed_exact)
    except OSError as error:
        raise SwarmError(f"cannot write {error.filename}: {error.strerror}") from error
    return f"the rule is in {path}"


def rules_for(running: RunContext, agent: Agent) -> RuleSet:
    """The rules that a new agent process starts with."""
    rules, saved = running.request.rules, running.grants.learned
    for one in saved:
        rules = rules.allowing(one.prefix, exact=one.exact)
    agent.process.know_rules(len(saved))
    return rules


async def send_rules(running: RunContext, agent: Agent) -> None:
    """Send one process the rules saved since it started. Receiving a rule twice changes nothing."""
    if agent.plan.slotless:
        return
    process = agent.process
    sent = process.rules_sent
    with trio.move_on_after(_SEND_TIMEOUT_S):
        for one in running.grants.learned[sent:]:
            try:
                await running.send(agent, one)
            except PeerGone:
                return  # the agent's next process starts with it
            if agent.process is not process:
                return
            sent += 1
            process.know_rules(sent)


async def send_rules_to_all(running: RunContext, agents: Iterable[Agent]) -> None:
    """Send to every process; returns when each has been sent its rules or is gone."""
    async with trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(send_rules, running, agent)
