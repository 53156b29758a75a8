"""How a run is asked to end: signals, the deadline, `swarm kill`. One ladder, one value.

The first Ctrl-C interrupts every turn; the second ends the run in order; the third kills. SIGTERM
and SIGHUP end it in order. Nobody waits here for anybody: events are set, others obey.
"""

import signal
from collections.abc import Awaitable, Callable
from typing import Literal

import trio

from .agents.agent_manager import AgentManager
from .agents.live_agent import LiveAgent

StopStatus = Literal["interrupted", "terminated", "deadline"]
Step = Callable[[], Awaitable[None]]


class SignalBuffer:
    """Signals that ask for the end, from before there is anything to end."""

    def __init__(self) -> None:
        self._handler: Callable[[int], None] | None = None
        self._early: list[int] = []

    def receive(self, number: int) -> None:
        """One has come."""
        if self._handler is None:
            self._early.append(number)
        else:
            self._handler(number)

    def set_handler(self, obey: Callable[[int], None]) -> None:
        """From now on this is told of each, also of those that came before."""
        self._handler = obey
        early, self._early = self._early, []
        for number in early:
            obey(number)


async def receive_signals(
    task_status: trio.TaskStatus[SignalBuffer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Until cancelled; the started value is where they are taken from."""
    signals = SignalBuffer()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as arrivals:
        task_status.started(signals)
        async for number in arrivals:
            signals.receive(number)


class RunShutdown:
    """What was asked so far. `stop`: end in order, now. `hurry`: leave out the grace."""

    def __init__(self, control: AgentManager, nursery: trio.Nursery) -> None:
        self._agents, self._nursery = control, nursery
        self.status: StopStatus | None = None
        self.interrupted = False
        self.stop = trio.Event()
        self.skip_grace = trio.Event()
        self.on_interrupt: Callable[[], None] = lambda: None

    def interrupt(self) -> None:
        """One Ctrl-C."""
        if not self.interrupted:
            self.interrupted = self._agents.run_end.has_begun = True
            self.on_interrupt()
            agents = list(self._agents.agents.values())
            self._nursery.start_soon(self._interrupt, agents)
        elif not self.stop.is_set():
            self.end("interrupted")
        else:
            self.skip_grace.set()

    async def _interrupt(self, agents: list[LiveAgent]) -> None:
        """Each turn is aborted; then the run ends, also where a letter has begun another one.

        Reviewers are not waited for, and no agent whose turn has yet to begin: the order to abort
        may come before that.
        """
        at_work = (
            one for one in agents if not one.plan.slotless and (one.turn or one.turn_ends_pending)
        )
        turns_over = [agent.done for agent in at_work]  # an agent that works again gets another
        await self._agents.interrupt(agents, "Ctrl-C")
        for over in turns_over:
            await over.wait()
        self.end("interrupted")

    def end(self, status: StopStatus) -> None:
        """End the run in order; the first reason stays."""
        if self.status is None:
            self.status = status
        self._agents.run_end.has_begun = True
        self.stop.set()

    async def carry_out(self, end_gateway: Step, kill_all: Step) -> None:
        """End every agent, then the gateway: in order, unless somebody hurries.

        Args:
            end_gateway: Ends it in order.
            kill_all: Kills what is left of the run, without any grace.
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
        """`swarm kill RUN`."""
        self.end("terminated")

    def handle_signal(self, number: int) -> None:
        """One signal. A second SIGTERM hurries."""
        if number == signal.SIGINT:
            self.interrupt()
        elif self.stop.is_set():
            self.skip_grace.set()
        else:
            self.end("terminated")

    async def end_at_deadline(self, seconds: float) -> None:
        """Let `seconds` pass, then end the run with the status of a reached bound."""
        await trio.sleep(seconds)
        self.end("deadline")
