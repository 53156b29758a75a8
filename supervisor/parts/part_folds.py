"""What the parts keep of the records of a run, fed in the order of the journal; the list of it.

`PartFolds` is what a resumed run begins with, `fold_figures` what is shown. Both name every record
of a part, so the type checker finds the one that nobody takes.
"""

from typing import assert_never

import msgspec

from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded
from swarm.mailbox.parts.memories.memory_messages import MemoryMarked
from swarm.mailbox.parts.part_messages import PartFigures, PartRecord
from swarm.mailbox.protocol.findings import Finding, FindingPublished


class PartFolds:
    """What each part knows of the earlier parts of a run. Empty for a new one."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []  # in the order of their numbers

    def take(self, record: PartRecord) -> None:
        """The next record of a part in the run's own file."""
        match record:
            case FindingPublished(finding=finding):
                self.findings.append(finding)
            case HeavyCommandEnded() | MemoryMarked():
                pass  # the ledger and the memory job keep their own files
            case _:
                assert_never(record)


def fold_figures(figures: PartFigures, record: PartRecord) -> PartFigures:
    """What a view shows after this record; the same object if nothing changed."""
    match record:
        case FindingPublished(finding=finding):
            return msgspec.structs.replace(figures, findings=finding.number)
        case HeavyCommandEnded() | MemoryMarked():
            return figures
        case _:
            assert_never(record)
