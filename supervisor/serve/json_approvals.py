"""Convert approval records to JSON lines. No I/O.

These lines name their agent even if it is the root: a reader answers by id and must know for whom.
"""

from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved

from ..console.approval_description import action_kind
from .json_lines import AnyLine, ApprovalRequestedLine, ApprovalResolvedLine


def approval_line(body: ApprovalRequested | ApprovalResolved, path: str) -> AnyLine:
    """One approval record as a line."""
    line: ApprovalRequestedLine | ApprovalResolvedLine
    match body:
        case ApprovalRequested(request=request):
            line = ApprovalRequestedLine(
                id=body.approval_id,
                kind=action_kind(request.action),
                action=request.action,
                cause=request.cause,
                reason=request.reason,
                reviewer=body.reviewer,
                preview=request.preview,
            )
        case ApprovalResolved():
            line = ApprovalResolvedLine(
                id=body.approval_id,
                outcome=body.outcome,
                by=body.by,
                scope=body.scope,
                reason=body.reason,
            )
    line.agent = path
    return line
