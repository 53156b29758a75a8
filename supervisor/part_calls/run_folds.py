"""What a resume reads of the run's own file: one pass gives each record to every fold; the list."""

from swarm.mailbox.protocol.records import Record

from ..approvals.approval_grants import ApprovalsFold
from ..journal.journal_reader import RunFileRead, take_run_file
from ..journal.replay import RunPast
from ..parts.budget.ledger import LedgerFold
from ..parts.copies.merge_history import MergePast
from ..parts.run_parts import PartFolds
from ..parts.undo.snapshots import FilesPast
from ..runs.paths import RunPaths
from ..views.run_state import RunState


class RunFolds:
    """Empty for a new run. Who needs to know something of a resumed run adds a fold here.

    `shown`: the run as people see it, which goes on with the records of this part of the run.
    """

    def __init__(self, shown: RunState) -> None:
        self.shown = shown
        self.run = RunPast()
        self.budget = LedgerFold()
        self.approvals = ApprovalsFold()
        self.merges = MergePast()
        self.parts = PartFolds()
        self._files = FilesPast()

    def read(self, run_paths: RunPaths) -> RunFileRead:
        """Read the run's own file: once, whoever needs something of it. See `take_run_file`."""
        return take_run_file(run_paths, self._take)

    def pop_files(self) -> FilesPast:
        """What it says of files: given away once, since it grows with the run."""
        found, self._files = self._files, FilesPast()
        return found

    def _take(self, record: Record) -> None:
        self.run.take(record)
        self.shown.apply_past(record)
        self.budget.take(record)
        self.approvals.take(record)
        self.merges.take(record)
        self._files.take(record)
        self.parts.take(record)
