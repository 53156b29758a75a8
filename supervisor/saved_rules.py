"""Rules that a person saves while the run lives: every agent judges by them from then on.

Rule guarded: what was answered once is not asked again, by whom it may be; a life that begins in
the same moment is told too. Reviewers have no rules.
"""

from collections.abc import Iterable

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.ops import LearnRule
from swarm.mailbox.protocol.rules import Rules

from .agents import LiveAgent
from .running import Running

_TELL_LIMIT_S = 5.0  # a life that takes no letters for so long is told with its next one


def rules_for(running: Running, agent: LiveAgent) -> Rules:
    """The rules that a new life begins with."""
    rules, saved = running.request.rules, running.grants.prefixes
    for prefix in saved:
        rules = rules.allowing(prefix)
    agent.rules_told = len(saved)
    return rules


async def tell_rules(running: Running, agent: LiveAgent) -> None:
    """Tell one life what was saved since it began. What it hears twice changes nothing."""
    if agent.plan.slotless:
        return
    epoch, told = agent.epoch, agent.rules_told
    with trio.move_on_after(_TELL_LIMIT_S):
        for prefix in running.grants.prefixes[told:]:
            try:
                await running.send(agent, LearnRule(prefix=prefix))
            except PeerGone:
                return  # its next life begins with it
            if agent.epoch != epoch:
                return
            told += 1
            agent.rules_told = max(told, agent.rules_told)


async def tell_all_rules(running: Running, agents: Iterable[LiveAgent]) -> None:
    """Tell every life; returns when all of them have the letter on its way, or are gone."""
    async with trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(tell_rules, running, agent)
