"""Whether the run is ending, and whom that cut off: what tells a resume who shall go on.

Rule guarded: an agent that was interrupted alone, by a person or by its parent, stays so; one that
was at work when the whole run was ended goes on.
"""

from swarm.mailbox.protocol.records import EndState

from .agents.live_agent import LiveAgent


class RunEnd:
    """One a run. Whoever begins to end it sets `has_begun`; from `is_closing` on nobody starts."""

    def __init__(self) -> None:
        self.has_begun = self.is_closing = False
        self.deadline_unix_s: float | None = None  # of the run
        self.cut_off_work = False  # somebody at work was cut off

    def cuts_off(self, agent: LiveAgent, state: EndState) -> bool:
        """True if the end of this agent's work is the run's, and not its own."""
        if agent.plan.slotless:
            return False
        if state == "deadline":
            cuts = agent.plan.limits.deadline_unix_s == self.deadline_unix_s
        else:
            cuts = self.has_begun and state == "interrupted"
        self.cut_off_work |= cuts
        return cuts
