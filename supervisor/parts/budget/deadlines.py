"""Deadline monitor: warns agents near their deadline, interrupts them at it, then ends them.

`next_deadline_step` decides without I/O; one task applies it to every live agent. The deadline of
the run as a whole is RunShutdown's; the root has the same one, so that it is warned in time.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol

import trio

from swarm.mailbox.protocol.values.base import Value

from ...agents.agent_record import Agent
from ...context.run_context import RunContext
from .budget_texts import deadline_notice

NOTICE_AT = 0.9  # the share of its time after which an agent is warned
_GRACE_S = 5.0  # from the interrupt to the end of the process
_POLL_S = 1.0  # agents come and go: check at least this often
_IDLE_POLL_S = 5.0  # without agents; one that begins is noticed at once


class DeadlineStep(Value):
    """What is due now, and in how many seconds to check again (None: never)."""

    due: Literal["nothing", "notify", "interrupt", "end"]
    wait_s: float | None


def next_deadline_step(
    *, began: float, deadline: float, now: float, notified: bool, interrupted: bool
) -> DeadlineStep:
    """Decide for one agent; all times are Unix seconds.

    Args:
        began: When its time began.
        deadline: When it ends; before `began` means at once.
        now: The clock.
        notified: It was told that its time is nearly over.
        interrupted: It was interrupted at its deadline.
    """
    if now >= deadline + _GRACE_S and interrupted:
        return DeadlineStep(due="end", wait_s=None)
    if now >= deadline:
        left_s = deadline + _GRACE_S - now
        return DeadlineStep(due="nothing" if interrupted else "interrupt", wait_s=max(0.0, left_s))
    late = began + NOTICE_AT * (deadline - began)
    if notified:
        return DeadlineStep(due="nothing", wait_s=deadline - now)
    if now >= late:
        return DeadlineStep(due="notify", wait_s=deadline - now)
    return DeadlineStep(due="nothing", wait_s=late - now)


class AgentStopper(Protocol):
    """What `AgentManager` can do to an agent whose time is over."""

    async def interrupt(self, agents: list[Agent], reason: str) -> None: ...

    async def end(self, agent: Agent) -> None: ...


class DeadlineMonitor:
    """Enforces every live agent's deadline. Made once per run."""

    def __init__(
        self, running: RunContext, stopper: AgentStopper, notify: Callable[[Agent, str], None]
    ) -> None:
        self._run, self._agents, self._notify = running, stopper, notify
        self._began: dict[str, float] = {}  # agent id → when it was first seen
        self._notified: set[bytes] = set()  # identities of agent processes
        self._interrupted: set[bytes] = set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                agents = list(self._run.agents.live.values())
                wait_s = _POLL_S
                for agent in agents:
                    if (
                        agent.plan.limits.deadline_unix_s is not None
                        and agent.process.hello.is_set()
                    ):
                        wait_s = min(wait_s, self._check(nursery, agent))
                self._forget(agents)
                if agents:
                    await trio.sleep(wait_s)
                else:  # an idle run is to cost next to nothing
                    with trio.move_on_after(_IDLE_POLL_S):
                        await self._run.agents.wait_change()

    def _check(self, nursery: trio.Nursery, agent: Agent) -> float:
        deadline = agent.plan.limits.deadline_unix_s
        assert deadline is not None
        deadline += self._run.pauses.paused_s()  # it stops while the run waits for other runs
        now, identity = self._run.entropy.unix_s(), agent.identity
        hour = next_deadline_step(
            began=self._began.setdefault(agent.plan.agent_id, now),
            deadline=deadline,
            now=now,
            notified=identity in self._notified,
            interrupted=identity in self._interrupted,
        )
        match hour.due:
            case "notify":
                self._notified.add(identity)
                self._notify(agent, deadline_notice(deadline - now))
            case "interrupt":
                self._interrupted.add(identity)
                nursery.start_soon(self._agents.interrupt, [agent], "deadline")
            case "end" if agent.wanted_end is None:
                agent.request_end("completed" if agent.done.is_set() else "deadline")
                nursery.start_soon(partial(self._agents.end, agent))
            case _:
                pass
        return _POLL_S if hour.wait_s is None else hour.wait_s

    def _forget(self, agents: list[Agent]) -> None:
        """Forget agents that are gone."""
        if len(self._began) > len(agents):
            live = {agent.plan.agent_id for agent in agents}
            self._began = {name: at for name, at in self._began.items() if name in live}
            identities = {agent.identity for agent in agents}
            self._notified &= identities
            self._interrupted &= identities
