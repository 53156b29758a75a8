"""The tools of parts; the list of them. Each decides itself whether it is offered."""

from ..tools.interface.team_client import TeamClient
from ..tools.interface.tool_context import ToolContext
from ..tools.interface.tool_interface import Tool
from .findings.findings_tools import PublishFindingTool, RecallFindingsTool
from .goals.goal_tools import GetGoalTool, UpdateGoalTool
from .jobs.csv_job import ReportAgentJobResultTool, SpawnAgentsOnCsvTool
from .memories.memory_tools import RecallMemoriesTool, ReportStaleMemoryTool
from .notices.tell_tool import TellPersonTool
from .wakeups.wake_tools import WakeMeTool


def part_tools(team: TeamClient, context: ToolContext) -> tuple[Tool, ...]:
    """Of one agent."""
    return (
        SpawnAgentsOnCsvTool(team, context),
        ReportAgentJobResultTool(team),
        PublishFindingTool(team),
        RecallFindingsTool(team),
        RecallMemoriesTool(team),
        ReportStaleMemoryTool(team),
        WakeMeTool(team),
        GetGoalTool(team),
        UpdateGoalTool(team),
        TellPersonTool(team),
    )
