"""Rules that a person saves while the run lives: every agent judges by them from then on.

Rule guarded: what was answered once is not asked again, by whom it may be; a life that begins in
the same moment is told too. Reviewers have no rules.
"""

from collections.abc import Iterable

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.ops import LearnRule
from swarm.mailbox.protocol.rules import RuleSet

from ..agents.live_agent import LiveAgent
from ..run_context import RunContext

_SEND_TIMEOUT_S = 5.0  # a life that takes no letters for so long is told with its next one


def rules_for(running: RunContext, agent: LiveAgent) -> RuleSet:
    """The rules that a new life begins with."""
    rules, saved = running.request.rules, running.grants.prefixes
    for prefix in saved:
        rules = rules.allowing(prefix)
    agent.rules_sent = len(saved)
    return rules


async def send_rules(running: RunContext, agent: LiveAgent) -> None:
    """Tell one life what was saved since it began. What it hears twice changes nothing."""
    if agent.plan.slotless:
        return
    epoch, told = agent.epoch, agent.rules_sent
    with trio.move_on_after(_SEND_TIMEOUT_S):
        for prefix in running.grants.prefixes[told:]:
            try:
                await running.send(agent, LearnRule(prefix=prefix))
            except PeerGone:
                return  # its next life begins with it
            if agent.epoch != epoch:
                return
            told += 1
            agent.rules_sent = max(told, agent.rules_sent)


async def send_rules_to_all(running: RunContext, agents: Iterable[LiveAgent]) -> None:
    """Tell every life; returns when all of them have the letter on its way, or are gone."""
    async with trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(send_rules, running, agent)
