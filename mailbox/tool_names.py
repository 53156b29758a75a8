"""The names of all tools, for roles and configurations that choose among them. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

from .parts.part_messages import PART_KEPT_TOOLS, PART_READING_TOOLS, PART_TOOLS

# Of the team, and of what agents and runs share.
_TEAM_TOOLS = (
    "spawn_agent", "send_message", "followup_task", "wait_agent", "list_agents", "interrupt_agent",
    "close_agent", "list_changes",
    "merge_changes", "discard_changes", *PART_TOOLS,
)  # fmt: skip
BEGIN_TASK = "begin_task"
TOOL_NAMES = (
    "exec_command", "write_stdin", "update_plan", "request_user_input", "request_permissions",
    "apply_patch", "edit_file", "list_dir", "view_image", BEGIN_TASK, *_TEAM_TOOLS,
)  # fmt: skip
# A call of one of these never starts a command.
TOOLS_WITHOUT_COMMANDS = frozenset({
    *_TEAM_TOOLS,
    "update_plan", "request_user_input", "request_permissions", BEGIN_TASK,
})  # fmt: skip
# What a model that may only read can call: each either reads, or runs in the read-only sandbox.
READING_TOOLS = frozenset({
    BEGIN_TASK, "exec_command", "write_stdin", "list_dir", "view_image", "update_plan",
    "request_user_input", "wait_agent", "list_agents", "list_changes",
    *PART_READING_TOOLS, "tool_search", "list_mcp_resources",
    "list_mcp_resource_templates", "read_mcp_result",
})  # fmt: skip
# Nobody takes these away: the item of a job ends by nothing but its report, and a small model
# changes nothing before it has said what its task asks for.
ALWAYS_KEPT = frozenset({BEGIN_TASK, *PART_KEPT_TOOLS})


def unknown_tool(names: Iterable[str]) -> str:
    """What is wrong with the first name that no tool has, and the names there are; "" if none."""
    for name in names:
        if name not in TOOL_NAMES:
            near = get_close_matches(name, TOOL_NAMES, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else "."
            return f"there is no tool `{name}`{hint} The tools: {', '.join(TOOL_NAMES)}"
    return ""
