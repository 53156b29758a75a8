"""Whether the run is ending, and which agents that cut off: a resume continues those.

An agent that a person or its parent interrupted by itself stays interrupted. An agent that was
working when the whole run was ended continues after a resume.
"""

from swarm.mailbox.protocol.records import EndState

from ..agents.agent_record import Agent


class RunEnd:
    """One per run. `deadline_unix_s` is the run's own deadline."""

    def __init__(self, deadline_unix_s: float | None = None) -> None:
        self.deadline_unix_s = deadline_unix_s
        self.has_begun = False  # no other work begins; agents that still work are cut off
        self.is_closing = False  # no agent starts any more
        self._cut_off_work = False

    def begin(self) -> None:
        """End the run, or interrupt all of it: what has not begun waits for a resume."""
        self.has_begun = True

    def close(self) -> None:
        """Let no agent start any more."""
        self.is_closing = True

    @property
    def cut_off_work(self) -> bool:
        """True if the run is ending and cut off an agent that was working."""
        return self.has_begun and self._cut_off_work

    def cuts_off(self, agent: Agent, state: EndState) -> bool:
        """True if the run's end, not the agent's own, ended this agent's work."""
        if agent.plan.slotless:
            return False
        if state == "deadline":
            cuts = agent.plan.limits.deadline_unix_s == self.deadline_unix_s
        else:
            cuts = self.has_begun and state == "interrupted"
        self._cut_off_work |= cuts
        return cuts
