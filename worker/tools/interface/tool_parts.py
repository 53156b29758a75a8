"""The parts that take part in an agent's calls; the list of them.

The kernel's tools ask for what a member does, by its name here, never for a part.
"""

from ...base.current_spec import CurrentSpec
from ...base.reporter import Reporter
from ...parts.leases.lease_client import LeaseClient


class ToolParts:
    """Made once for each agent process."""

    def __init__(self, current: CurrentSpec, reporter: Reporter | None) -> None:
        self.command_turns = LeaseClient(current, reporter)  # which commands wait for others
