"""How a run is asked to end: signals, the deadline, `swarm kill`. One ladder, one value.

The first Ctrl-C interrupts every turn; the second ends the run in order; the third kills. SIGTERM
and SIGHUP end it in order. Nobody waits here for anybody: events are set, others obey.
"""

import signal
from collections.abc import Awaitable, Callable
from typing import Literal

import trio

from .agents import LiveAgent
from .control import Control

StopStatus = Literal["interrupted", "terminated", "deadline"]
Step = Callable[[], Awaitable[None]]


class Signals:
    """Signals that ask for the end, from before there is anything to end."""

    def __init__(self) -> None:
        self._obey: Callable[[int], None] | None = None
        self._early: list[int] = []

    def take(self, number: int) -> None:
        """One has come."""
        if self._obey is None:
            self._early.append(number)
        else:
            self._obey(number)

    def obey_by(self, obey: Callable[[int], None]) -> None:
        """From now on this is told of each, also of those that came before."""
        self._obey = obey
        early, self._early = self._early, []
        for number in early:
            obey(number)


async def hear_signals(
    task_status: trio.TaskStatus[Signals] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Until cancelled; the started value is where they are taken from."""
    signals = Signals()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as arrivals:
        task_status.started(signals)
        async for number in arrivals:
            signals.take(number)


class Ending:
    """What was asked so far. `stop`: end in order, now. `hurry`: leave out the grace."""

    def __init__(self, control: Control, nursery: trio.Nursery) -> None:
        self._control, self._nursery = control, nursery
        self.status: StopStatus | None = None
        self.interrupted = False
        self.stop = trio.Event()
        self.hurry = trio.Event()
        self.on_interrupt: Callable[[], None] = lambda: None

    def press_interrupt(self) -> None:
        """One Ctrl-C."""
        if not self.interrupted:
            self.interrupted = self._control.end_of_run.has_begun = True
            self.on_interrupt()
            agents = list(self._control.agents.values())
            self._nursery.start_soon(self._interrupt, agents)
        elif not self.stop.is_set():
            self.end("interrupted")
        else:
            self.hurry.set()

    async def _interrupt(self, agents: list[LiveAgent]) -> None:
        """Each turn is aborted; then the run ends, also where a letter has begun another one.

        Reviewers are not waited for, and no agent whose turn has yet to begin: the order to abort
        may come before that.
        """
        at_work = (one for one in agents if not one.plan.slotless and (one.turn or one.ending))
        turns_over = [agent.done for agent in at_work]  # an agent that works again gets another
        await self._control.interrupt(agents, "Ctrl-C")
        for over in turns_over:
            await over.wait()
        self.end("interrupted")

    def end(self, status: StopStatus) -> None:
        """End the run in order; the first reason stays."""
        if self.status is None:
            self.status = status
        self._control.end_of_run.has_begun = True
        self.stop.set()

    async def carry_out(self, end_gateway: Step, kill_all: Step) -> None:
        """End every agent, then the gateway: in order, unless somebody hurries.

        Args:
            end_gateway: Ends it in order.
            kill_all: Kills what is left of the run, without any grace.
        """
        async with trio.open_nursery() as nursery:

            async def in_order() -> None:
                await self._control.end_all()
                await end_gateway()
                nursery.cancel_scope.cancel()

            async def hurry() -> None:
                await self.hurry.wait()
                await kill_all()
                nursery.cancel_scope.cancel()

            nursery.start_soon(in_order)
            nursery.start_soon(hurry)

    def stop_by_kill(self) -> None:
        """`swarm kill RUN`."""
        self.end("terminated")

    def obey(self, number: int) -> None:
        """One signal. A second SIGTERM hurries."""
        if number == signal.SIGINT:
            self.press_interrupt()
        elif self.stop.is_set():
            self.hurry.set()
        else:
            self.end("terminated")

    async def obey_deadline(self, seconds: float) -> None:
        """Let `seconds` pass, then end the run with the status of a reached bound."""
        await trio.sleep(seconds)
        self.end("deadline")
