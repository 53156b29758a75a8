"""Chooses who decides an approval request: a person, the reviewer, or nobody. Pure.

A request that nobody can decide is refused at once; it never hangs and is never approved.

Source: Codex (the reviewer is asked only under `on-request`); unlike there, `nobody` can be
configured.
"""

from typing import Literal

from swarm.mailbox.protocol.approvals import ApprovalRequest, PermissionsAction, QuestionsAction
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.server_sampling import SamplingAction
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import Limits


class NoReviewer(Value):
    """The request is refused; `why` gives the reason."""

    why: str


ReviewerKind = Literal["person", "guardian"]
ApprovalRoute = ReviewerKind | NoReviewer


def choose_route(request: ApprovalRequest, limits: Limits) -> ApprovalRoute:
    """Choose who decides, from the limits of the requesting agent."""
    if limits.approval == "never":
        return NoReviewer(why="approval required by policy, but AskForApproval is set to Never")
    if (closed := _closed_by_granular(request, limits)) is not None:
        return closed
    match limits.reviewer:
        case "person":
            return "person"
        case "nobody":
            return NoReviewer(why="nobody can be asked in this run")
        case "guardian":
            pass
    if isinstance(request.action, QuestionsAction | ElicitationAction):
        return NoReviewer(why="only a person could answer, and this run is watched by a reviewer")
    if limits.approval != "on-request":
        return NoReviewer(
            why=f"the reviewer judges only under the policy on-request, and this is "
            f"{limits.approval}"
        )
    return "guardian"


def _closed_by_granular(request: ApprovalRequest, limits: Limits) -> NoReviewer | None:
    """Refuse the kinds of requests that the granular policy switches off."""
    granular = limits.granular
    if granular is None or isinstance(request.action, QuestionsAction):
        return None
    if isinstance(request.action, PermissionsAction):
        if granular.request_permissions:
            return None
        return NoReviewer(why="AskForApproval::Granular.request_permissions is false")
    if isinstance(request.action, ElicitationAction | SamplingAction):
        if granular.mcp_elicitations:
            return None
        return NoReviewer(why="AskForApproval::Granular.mcp_elicitations is false")
    if request.cause == "rule":
        if granular.rules:
            return None
        return NoReviewer(
            why="approval required by policy rule, but AskForApproval::Granular.rules is false"
        )
    if granular.sandbox_approval:
        return None
    return NoReviewer(
        why="approval required by policy, but AskForApproval::Granular.sandbox_approval is false"
    )
