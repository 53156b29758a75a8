"""What a part makes of the moment when the run's work has ended."""

from typing import NamedTuple

from swarm.mailbox.protocol.records import RunCompleted


class WorkEnd(NamedTuple):
    """How the run ends; or, if it `goes_on`, what it would have been: there is work again."""

    completed: RunCompleted
    goes_on: bool = False
    has_worked: bool = False  # the part itself had something to do
