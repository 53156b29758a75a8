"""How a run is stopped: signals, the deadline, `swarm kill`, in escalating steps.

The first Ctrl-C interrupts every turn; the second ends the run in order; the third kills. SIGTERM
and SIGHUP end it in order. What a request means is in the tables of `context/run_phases.py`. The
requests themselves never wait: they set events of `RunLife`, to which the other tasks react.
"""

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

import trio

from swarm.mailbox.base.ids import ROOT_PATH

from ..agents.agent_record import Agent
from ..agents.life.agent_manager import AgentManager
from ..context.run_life import StopStatus
from ..context.run_phases import CtrlC, RunEvent, RunPhase, StopRequest, decide_ctrl_c
from ..team.team_service import TeamService

Step = Callable[[], Awaitable[None]]
_TURN_END_S = 5.0
_DEADLINE_LOOK_S = 0.2  # while the deadline stops


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
    """Carries out what is asked of the run's end.

    In a kept-open run an interrupt of all turns lets the run wait for input instead of ending it.
    """

    def __init__(
        self,
        agents: AgentManager,
        team: TeamService,
        nursery: trio.Nursery,
        *,
        keep_open: bool = False,
    ) -> None:
        self._agents, self._team, self._nursery = agents, team, nursery
        self._keep_open = keep_open
        self._life = agents.run_life
        self._turns_ending = 0  # interrupts of all turns that are in progress

    @property
    def stop(self) -> trio.Event:
        """Set when the run is to end in order, now."""
        return self._life.stop

    @property
    def status(self) -> StopStatus | None:
        return self._life.status

    @property
    def is_idle(self) -> bool:
        """True while the run waits for input."""
        return self._life.phase is RunPhase.IDLE

    def interrupt(self) -> None:
        """Handle one Ctrl-C."""
        life = self._life
        match decide_ctrl_c(
            life.phase,
            life.urgency,
            stays=self._keeps_agents,
            turns_are_ending=bool(self._turns_ending),
        ):
            case CtrlC.INTERRUPT_TURNS:
                self._nursery.start_soon(partial(self._interrupt_turns, "Ctrl-C"))
            case CtrlC.INTERRUPT_RUN:
                life.ask(StopRequest.INTERRUPT)
                self._nursery.start_soon(self._interrupt_and_end, self._begin_interrupt())
            case CtrlC.STOP:
                self.end("interrupted")
            case CtrlC.KILL:
                life.ask(StopRequest.KILL)
            case _ as never:
                assert_never(never)

    async def interrupt_all(self, why: str, *, keep_commands: bool) -> int:
        """Abort every turn, for `swarm interrupt RUN`; the run ends once no agent works.

        A kept-open run waits for input then. Returns the number of agents.
        """
        if self._keeps_agents:
            return await self._interrupt_turns(why, keep_commands=keep_commands)
        agents = self._begin_interrupt()
        await self._agents.interrupt(agents, why, keep_commands=keep_commands)
        return len(agents)

    def _begin_interrupt(self) -> list[Agent]:
        """Let nothing begin that waits (items, agents, jobs); return the agents to interrupt."""
        self._life.apply(RunEvent.END_BEGAN)
        self._team.interrupt_waiting()
        return list(self._agents.agents.values())

    @property
    def _keeps_agents(self) -> bool:
        """True if the run goes on after an interrupt of all turns."""
        root = self._team.team.members.get(ROOT_PATH) if self._keep_open else None
        return root is not None and root.has_started and not self._life.is_ending

    async def _interrupt_turns(self, why: str, *, keep_commands: bool = False) -> int:
        """Abort every turn of a run that stays."""
        agents = list(self._agents.agents.values())
        turns_over = [agent.done for agent in agents if _is_at_work(agent)]
        self._turns_ending += 1
        try:
            self._team.interrupt_waiting(fate="cancelled")
            await self._agents.interrupt(agents, why, keep_commands=keep_commands)
            with trio.move_on_after(_TURN_END_S):
                for over in turns_over:
                    await over.wait()
        finally:
            self._turns_ending -= 1
        return len(agents)

    def finish(self) -> None:
        """End the run as soon as its work is done, with its last answer."""
        self._life.apply(RunEvent.FINISH_WANTED)
        self._team.team.notify_change()

    def note_root_interrupt(self) -> None:
        """A person interrupts the root by itself: the run stays until they say how it goes on."""
        self._life.apply(RunEvent.ROOT_INTERRUPTED)

    async def _interrupt_and_end(self, agents: list[Agent]) -> None:
        """Abort each turn; then end the run, also if a message has started another turn.

        Waits neither for reviewers nor for an agent whose turn has yet to start: the interrupt may
        reach that agent before its turn starts.
        """
        # An agent that works again gets a new event.
        turns_over = [agent.done for agent in agents if _is_at_work(agent)]
        await self._agents.interrupt(agents, "Ctrl-C")
        for over in turns_over:
            await over.wait()
        self.end("interrupted")

    def end(self, status: StopStatus) -> None:
        """End the run in order; the first status stays."""
        self._life.ask(StopRequest.STOP, status)

    async def carry_out(self, end_gateway: Step, kill_all: Step) -> None:
        """End every agent, then the gateway: in order, until it is to be done without grace.

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
                await self._life.skip_grace.wait()
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
            self._life.ask(StopRequest.KILL)
        else:
            self.end("terminated")

    async def end_at_deadline(self, seconds: float, paused_s: Callable[[], float]) -> None:
        """Wait `seconds`, then end the run with the status "deadline".

        `paused_s`: seconds that do not count, so far.
        """
        ends_at = trio.current_time() + seconds
        await trio.sleep(seconds)
        while (left_s := ends_at + paused_s() - trio.current_time()) > 0:  # noqa: ASYNC110 - grows
            await trio.sleep(max(left_s, _DEADLINE_LOOK_S))
        self.end("deadline")


def _is_at_work(agent: Agent) -> bool:
    return not agent.plan.slotless and bool(agent.process.turn or agent.turn_ends_pending)
