"""Whether the run is ending, and which agents that cut off: a resume continues those.

An agent that a person or its parent interrupted by itself stays interrupted. An agent that was
working when the whole run was ended continues after a resume.
"""

from swarm.mailbox.protocol.records import EndState

from .agents.live_agent import LiveAgent


class RunEnd:
    """One per run. Code that ends the run sets `has_begun`; once `is_closing`, no agent starts."""

    def __init__(self) -> None:
        self.has_begun = self.is_closing = False
        self.deadline_unix_s: float | None = None  # the run's deadline
        self.cut_off_work = False  # the run's end cut off an agent that was working

    def cuts_off(self, agent: LiveAgent, state: EndState) -> bool:
        """True if the run's end, not the agent's own, ended this agent's work."""
        if agent.plan.slotless:
            return False
        if state == "deadline":
            cuts = agent.plan.limits.deadline_unix_s == self.deadline_unix_s
        else:
            cuts = self.has_begun and state == "interrupted"
        self.cut_off_work |= cuts
        return cuts
