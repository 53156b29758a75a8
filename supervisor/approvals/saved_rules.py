"""Sends rules that a person saves during the run to every live agent.

An action that a saved rule covers is not asked about again, by any agent. An agent process that
starts at the same moment also receives the rule. Reviewers have no rules.
"""

from collections.abc import Iterable

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.ops import LearnRule
from swarm.mailbox.protocol.rules import RuleSet

from ..agents.live_agent import LiveAgent
from ..run_context import RunContext

_SEND_TIMEOUT_S = 5.0  # a slow agent gets the rest with the next rule or process


def rules_for(running: RunContext, agent: LiveAgent) -> RuleSet:
    """The rules that a new agent process starts with."""
    rules, saved = running.request.rules, running.grants.prefixes
    for prefix in saved:
        rules = rules.allowing(prefix)
    agent.rules_sent = len(saved)
    return rules


async def send_rules(running: RunContext, agent: LiveAgent) -> None:
    """Send one process the rules saved since it started. Receiving a rule twice changes nothing."""
    if agent.plan.slotless:
        return
    epoch, told = agent.epoch, agent.rules_sent
    with trio.move_on_after(_SEND_TIMEOUT_S):
        for prefix in running.grants.prefixes[told:]:
            try:
                await running.send(agent, LearnRule(prefix=prefix))
            except PeerGone:
                return  # the agent's next process starts with it
            if agent.epoch != epoch:
                return
            told += 1
            agent.rules_sent = max(told, agent.rules_sent)


async def send_rules_to_all(running: RunContext, agents: Iterable[LiveAgent]) -> None:
    """Send to every process; returns when each has been sent its rules or is gone."""
    async with trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(send_rules, running, agent)
