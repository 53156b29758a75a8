"""The tools of parts; the list of them. Each decides itself whether it is offered."""

from ..tools.team_client import TeamClient
from ..tools.tool_interface import Tool
from .findings.findings_tools import PublishFindingTool, RecallFindingsTool
from .memories.memory_tools import RecallMemoriesTool, ReportStaleMemoryTool


def part_tools(team: TeamClient) -> tuple[Tool, ...]:
    """Of one agent."""
    return (
        PublishFindingTool(team),
        RecallFindingsTool(team),
        RecallMemoriesTool(team),
        ReportStaleMemoryTool(team),
    )
