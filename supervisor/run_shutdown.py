"""How a run is stopped: signals, the deadline, `swarm kill`, in escalating steps.

The first Ctrl-C interrupts every turn; the second ends the run in order; the third kills. SIGTERM
and SIGHUP end it in order. The requests themselves never wait: they set events to which the other
tasks react.
"""

import signal
from collections.abc import Awaitable, Callable
from typing import Literal

import trio

from .agents.agent_manager import AgentManager
from .agents.agent_record import Agent
from .team.team_service import TeamService

StopStatus = Literal["interrupted", "terminated", "deadline"]
Step = Callable[[], Awaitable[None]]


class SignalBuffer:
    """Buffers stop signals from before the run exists that they shall end."""

    def __init__(self) -> None:
        self._handler: Callable[[int], None] | None = None
        self._early: list[int] = []

    def receive(self, number: int) -> None:
        """Handle one signal, or buffer it."""
        if self._handler is None:
            self._early.append(number)
        else:
            self._handler(number)

    def set_handler(self, obey: Callable[[int], None]) -> None:
        """Call `obey` for each signal from now on, and for each that was buffered."""
        self._handler = obey
        early, self._early = self._early, []
        for number in early:
            obey(number)


async def receive_signals(
    task_status: trio.TaskStatus[SignalBuffer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Receive signals until cancelled; the started value is their buffer."""
    signals = SignalBuffer()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as arrivals:
        task_status.started(signals)
        async for number in arrivals:
            signals.receive(number)


class RunShutdown:
    """Stop requests so far. `stop`: end in order, now. `skip_grace`: kill without grace."""

    def __init__(self, agents: AgentManager, team: TeamService, nursery: trio.Nursery) -> None:
        self._agents, self._team, self._nursery = agents, team, nursery
        self.status: StopStatus | None = None
        self._interrupted = False  # by a first Ctrl-C
        self.stop = trio.Event()
        self.skip_grace = trio.Event()

    def interrupt(self) -> None:
        """Handle one Ctrl-C."""
        if not self._interrupted:
            self._interrupted = True
            self._nursery.start_soon(self._interrupt_and_end, self._begin_interrupt())
        elif not self.stop.is_set():
            self.end("interrupted")
        else:
            self.skip_grace.set()

    async def interrupt_all(self, why: str, *, keep_commands: bool) -> int:
        """Abort every turn, for `swarm interrupt RUN`; the run ends once no agent works.

        Returns the number of agents.
        """
        agents = self._begin_interrupt()
        await self._agents.interrupt(agents, why, keep_commands=keep_commands)
        return len(agents)

    def _begin_interrupt(self) -> list[Agent]:
        """Let nothing begin that waits (items, agents, jobs); return the agents to interrupt."""
        self._agents.run_end.begin()
        self._team.interrupt_waiting()
        return list(self._agents.agents.values())

    async def _interrupt_and_end(self, agents: list[Agent]) -> None:
        """Abort each turn; then end the run, also if a message has started another turn.

        Waits neither for reviewers nor for an agent whose turn has yet to start: the interrupt may
        reach that agent before its turn starts.
        """
        at_work = (
            one
            for one in agents
            if not one.plan.slotless and (one.process.turn or one.turn_ends_pending)
        )
        turns_over = [agent.done for agent in at_work]  # an agent that works again gets a new event
        await self._agents.interrupt(agents, "Ctrl-C")
        for over in turns_over:
            await over.wait()
        self.end("interrupted")

    def end(self, status: StopStatus) -> None:
        """End the run in order; the first status stays."""
        if self.status is None:
            self.status = status
        self._agents.run_end.begin()
        self.stop.set()

    async def carry_out(self, end_gateway: Step, kill_all: Step) -> None:
        """End every agent, then the gateway: in order, unless `skip_grace` is set.

        Args:
            end_gateway: Ends the gateway in order.
            kill_all: Kills all remaining processes of the run at once.
        """
        async with trio.open_nursery() as nursery:

            async def in_order() -> None:
                await self._agents.end_all()
                await end_gateway()
                nursery.cancel_scope.cancel()

            async def hurry() -> None:
                await self.skip_grace.wait()
                await kill_all()
                nursery.cancel_scope.cancel()

            nursery.start_soon(in_order)
            nursery.start_soon(hurry)

    def terminate(self) -> None:
        """Handle `swarm kill RUN`."""
        self.end("terminated")

    def handle_signal(self, number: int) -> None:
        """Handle one signal. A second SIGTERM skips the grace period."""
        if number == signal.SIGINT:
            self.interrupt()
        elif self.stop.is_set():
            self.skip_grace.set()
        else:
            self.end("terminated")

    async def end_at_deadline(self, seconds: float) -> None:
        """Wait `seconds`, then end the run with the status "deadline"."""
        await trio.sleep(seconds)
        self.end("deadline")
