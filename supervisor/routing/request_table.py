"""Which service serves which request of an agent: the table.

The type checker names a request that nobody serves.
"""

from typing import NamedTuple

from swarm.mailbox.protocol.requests import (
    AnyRequest,
    McpRequest,
    NonTeamRequest,
    ReportPermission,
    RequestApproval,
    TeamRequest,
)

from ..agents.agent_record import Agent
from ..approvals.queue.approval_endpoint import ApprovalEndpoint
from ..part_calls.part_services import PartServices
from ..parts.mcp.mcp_requests import McpEndpoint
from ..team.team_service import TeamService
from .file_requests import FileRequests


class RequestTable(NamedTuple):
    """The services; each begins to serve a request and replies itself. None of them waits."""

    files: FileRequests
    team: TeamService
    approvals: ApprovalEndpoint
    mcp: McpEndpoint
    parts: PartServices

    def serve(self, agent: Agent, request_id: int, request: AnyRequest) -> None:
        if isinstance(request, NonTeamRequest):
            self.files.serve(agent, request_id, request)
        elif isinstance(request, TeamRequest):
            self.team.serve(agent, request_id, request)
        elif isinstance(request, McpRequest):
            self.mcp.serve(agent, request_id, request)
        elif isinstance(request, RequestApproval):
            self.approvals.serve(agent, request_id, request)
        elif isinstance(request, ReportPermission):
            self.approvals.take_report(agent, request_id, request)
        else:  # what is left must be of parts, or the type check fails here
            self.parts.serve(agent, request_id, request)
