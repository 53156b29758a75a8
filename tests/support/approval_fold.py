"""The past of approvals, from records at once."""

from collections.abc import Iterable

from swarm.mailbox.protocol.records import Record
from swarm.supervisor.approvals.approval_grants import ApprovalsFold, ApprovalsPast


def fold_approvals(records: Iterable[Record]) -> ApprovalsPast:
    fold = ApprovalsFold()
    for record in records:
        fold.take(record)
    return fold.past()
