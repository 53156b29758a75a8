"""Where the run stands: the owner of its phase, of how its end was wanted, and whom that cut off.

An agent that a person or its parent interrupted by itself stays interrupted. An agent that was
working when the whole run was ended continues after a resume.
"""

from typing import Literal

import trio

from swarm.mailbox.protocol.records import EndState

from ..agents.agent_record import Agent
from .run_phases import PHASES, URGENCIES, RunEvent, RunPhase, StopRequest, Urgency

StopStatus = Literal["interrupted", "terminated", "deadline"]


class RunLife:
    """One per run. `deadline_unix_s` is the run's own deadline."""

    def __init__(self, deadline_unix_s: float | None = None) -> None:
        self.deadline_unix_s = deadline_unix_s
        self._phase = RunPhase.WORKING
        self._urgency = Urgency.NONE
        self._status: StopStatus | None = None
        self._cut_off_work = False
        self.stop = trio.Event()  # set when it is to end in order, now
        self.skip_grace = trio.Event()  # set when it is to end without a grace period

    @property
    def phase(self) -> RunPhase:
        return self._phase

    @property
    def urgency(self) -> Urgency:
        return self._urgency

    @property
    def is_ending(self) -> bool:
        """No other work begins; agents that still work are cut off."""
        return self._phase.is_ending

    @property
    def is_closing(self) -> bool:
        """No agent starts any more."""
        return self._phase is RunPhase.CLOSING

    @property
    def status(self) -> StopStatus | None:
        """Why it was stopped; None: it was not."""
        return self._status

    def apply(self, event: RunEvent) -> bool:
        """This happens to the run. False: the table refuses it, and nothing has changed."""
        phase = PHASES[self._phase, event]
        if phase is None:
            return False
        self._phase = phase
        return True

    def ask(self, request: StopRequest, status: StopStatus | None = None) -> bool:
        """The run is to end like this; the first `status` stays. False: refused, as by `apply`."""
        urgency = URGENCIES[self._urgency, request]
        if urgency is None:
            return False
        self._urgency = urgency
        self._status = self._status or status
        self.apply(RunEvent.END_BEGAN)
        if urgency.is_stop:
            self.stop.set()
        if urgency is Urgency.KILLED:
            self.skip_grace.set()
        return True

    def note_cut_off(self) -> None:
        """The end of the run cuts off what waits: a resume continues it."""
        self._cut_off_work = True

    @property
    def cut_off_work(self) -> bool:
        """True if the run is ending and cut off an agent that was working."""
        return self.is_ending and self._cut_off_work

    def cuts_off(self, agent: Agent, state: EndState) -> bool:
        """True if the run's end, not the agent's own, ended this agent's work."""
        if agent.plan.slotless:
            return False
        if state == "deadline":
            cuts = agent.plan.limits.deadline_unix_s == self.deadline_unix_s
        else:
            cuts = self.is_ending and state == "interrupted"
        self._cut_off_work |= cuts
        return cuts
