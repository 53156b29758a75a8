"""Agents that a provider refuses until a limit resets: one wait for all of them.

The first one makes the wake-up, which is told once; the others join it. Their processes end where
their turns stand, and go on when the limit has reset, a person says so, or nobody waits any more.
"""

import math

import trio

from swarm.mailbox.parts.wakeups.wakeup_messages import LimitOver, WaitForLimit, WakeUp, WakeUpEnd
from swarm.mailbox.protocol.events import Warned

from ....agents.agent_record import Agent
from ....agents.child_plan import AgentRequestError
from ....part_access.part_host import PartHost, PartTeam
from ..limit_rules import decide_limit_wait, nearly_spent
from ..wakeup_rules import MAX_WHY_CHARS, one_line, written
from .wake_ups import WakeUps

_LOOK_S = 5.0  # while an agent has a process
_GIVEN_UP = "a person took the wait for this limit back; `swarm continue RUN` tries again"


class _LimitWait:
    """Those who wait for one limit."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.is_given_up = False


class LimitWaits:
    """One per run."""

    def __init__(self, host: PartHost, team: PartTeam, ups: WakeUps, nursery: trio.Nursery) -> None:
        self._host = host
        self._team = team
        self._ups = ups
        self._nursery = nursery
        self._waits: dict[str, _LimitWait] = {}  # by `provider/model`
        self._given_up: set[str] = set()

    async def wait(self, asker: Agent, request: WaitForLimit) -> LimitOver:
        """Return when the limit is over. Raises AgentRequestError if the run does not wait."""
        about = f"{request.provider}/{request.model}"
        waited = self._waits.get(about) or self._begin(about, request)
        self._nursery.start_soon(self._suspend, asker, waited)
        await waited.over.wait()
        suspended = asker.suspended
        if suspended is not None and not suspended.tool:
            self._team.lifecycle.continue_turn(asker)
        if waited.is_given_up:
            raise AgentRequestError(_GIVEN_UP)
        return LimitOver()

    async def try_now(self) -> bool:
        """A person wants it tried: all that wait go on. False if nobody waits."""
        self._given_up.clear()
        await self._team.try_now()
        waiting = self._ups.of_cause("limit")
        for one in waiting:
            self._ups.fire_quietly(one)
        return bool(waiting)

    def check_new_agent(self) -> None:
        """Raises AgentRequestError while a limit is nearly spent."""
        windows = self._host.broadcast.current_view().rate_limits
        if why := nearly_spent(windows, self._host.entropy.unix_s()):
            raise AgentRequestError(why)

    def _begin(self, about: str, request: WaitForLimit) -> _LimitWait:
        if about in self._given_up:
            raise AgentRequestError(_GIVEN_UP)
        now = self._host.entropy.unix_s()
        due = decide_limit_wait(
            self._host.request.parts.wakeups.wait_for_limit_s,
            resets_at_unix_s=request.resets_at_unix_s,
            now_unix_s=now,
            noise=self._host.entropy.noise(),
        )
        waited = self._waits[about] = _LimitWait()

        def end(wake_up: WakeUp, reason: WakeUpEnd) -> None:
            del self._waits[about]
            if reason == "person":
                waited.is_given_up = True
                self._given_up.add(about)
            waited.over.set()

        why = one_line(request.message)[:MAX_WHY_CHARS]
        self._ups.make("", "limit", why, due_unix_s=due, about=about, on_over=end)
        self._host.note(
            Warned(
                message=f"the limit of {about} is reached: the run waits until {written(due)} and "
                "goes on by itself; `swarm continue RUN` tries now"
            )
        )
        self._nursery.start_soon(self._rest_tree, waited)
        return waited

    async def _rest_tree(self, waited: _LimitWait) -> None:
        """Once all that have a process wait for those that have none, theirs end, too."""
        lifecycle, agents = self._team.lifecycle, self._host.agents
        while not waited.over.is_set():
            live = [one for one in agents.live.values() if not one.plan.slotless]
            if live and all(map(lifecycle.only_waits, live)):
                for agent in live:
                    await lifecycle.suspend(agent)
            with trio.move_on_after(_LOOK_S if live else math.inf):
                await agents.wait_change()

    async def _suspend(self, agent: Agent, waited: _LimitWait) -> None:
        """End its process, once it has no command left."""
        await self._team.lifecycle.suspend_at_limit(agent, waited.over)
