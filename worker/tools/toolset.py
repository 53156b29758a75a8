"""All tools of an agent, in the order in which they are described to models."""

from swarm.mailbox.protocol.hooks import Hook
from swarm.roles.parts.hooks.hook_output import HookEnd

from ..base.current_spec import CurrentSpec
from ..base.reporter import Reporter
from ..exec.exec_sessions import EnvironmentSource, ExecSessions
from ..exec.hook_process import is_before_calls, run_hook
from ..parts.part_tools import part_tools
from ..policy.shell_parser import plain_commands
from .apply_patch import ApplyPatchTool
from .edit_file import EditFileTool
from .exec_command import ExecCommandTool
from .interface.begin_task import BeginTaskTool
from .interface.team_client import TeamClient
from .interface.tool_context import ToolContext
from .interface.tool_interface import Tool
from .list_dir import ListDirTool
from .mcp_tool import McpClient
from .merge_tools import DiscardChangesTool, ListChangesTool, MergeChangesTool
from .orchestrator import ToolRegistry
from .request_permissions import RequestPermissionsTool
from .request_user_input import RequestUserInputTool
from .spawn_agent import SpawnAgentTool
from .team_tools import (
    CloseAgentTool,
    FollowupTaskTool,
    InterruptAgentTool,
    ListAgentsTool,
    SendMessageTool,
)
from .update_plan import UpdatePlanTool
from .view_image import ViewImageTool
from .wait_agent import WaitAgentTool
from .write_stdin import WriteStdinTool


class Toolset:
    """The `ToolHost` of a real agent."""

    def __init__(self, current: CurrentSpec, commands: ExecSessions) -> None:
        self._current, self._commands = current, commands

    def make_registry(self, reporter: Reporter, team: TeamClient | None = None) -> ToolRegistry:
        context = ToolContext(self._current, self._commands, reporter)
        own: tuple[Tool, ...] = (
            BeginTaskTool(context.gate),
            ExecCommandTool(context),
            WriteStdinTool(context),
            UpdatePlanTool(),
            RequestUserInputTool(context),
            RequestPermissionsTool(context),
            ApplyPatchTool(context),
            EditFileTool(context),
            ListDirTool(context),
            ViewImageTool(context, reporter),
        )
        tools = own if team is None else (*own, *team_tools(context, team))
        mcp = McpClient(self._current, reporter)
        return ToolRegistry(
            tools,
            load_more=mcp.load_tools,
            load_again=mcp.load_again,
            choice=self._current.spec.role.tools,
            context=context,
        )

    @property
    def live_commands(self) -> int:
        return self._commands.live_count()

    def set_environment_source(self, source: EnvironmentSource) -> None:
        """Set where the commands' environment comes from."""
        self._commands.set_environment_source(source)

    async def prewarm(self) -> None:
        """Prepare for a command, and the hook that comes before it, while its call is written."""
        await self._commands.load_environment()
        plain_commands("true")  # loads the parser, some milliseconds, once
        hooks = self._current.spec.inherited.hooks
        if (first := next(filter(is_before_calls, hooks), None)) is not None:
            await self._commands.prewarm_hook(first)

    async def end_commands(self) -> None:
        await self._commands.terminate_all()

    async def run_hook(self, hook: Hook, payload: bytes) -> HookEnd:
        return await run_hook(self._commands, hook, payload)


def team_tools(context: ToolContext, team: TeamClient) -> tuple[Tool, ...]:
    """Return the tools that concern other agents; each decides itself whether it is offered."""
    return (
        SpawnAgentTool(team),
        SendMessageTool(team),
        FollowupTaskTool(team),
        WaitAgentTool(team),
        ListAgentsTool(team),
        InterruptAgentTool(team),
        CloseAgentTool(team),
        *part_tools(team, context),
        ListChangesTool(team, context),
        MergeChangesTool(team, context),
        DiscardChangesTool(team, context),
    )
