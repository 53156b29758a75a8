"""The names of all tools, for roles and configurations that choose among them. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

from ..base.named_tool import NamedTool
from .part_messages import PART_TOOLS

BEGIN_TASK = "begin_task"
_TOOLS = (
    NamedTool(name="exec_command", runs=True, reads=True),
    NamedTool(name="write_stdin", runs=True, reads=True),
    NamedTool(name="update_plan", reads=True),
    NamedTool(name="request_user_input", reads=True),
    NamedTool(name="request_permissions"),
    NamedTool(name="apply_patch", runs=True),
    NamedTool(name="edit_file", runs=True),
    NamedTool(name="list_dir", runs=True, reads=True),
    NamedTool(name="view_image", runs=True, reads=True),
    # A small model changes nothing before it has said what its task asks for.
    NamedTool(name=BEGIN_TASK, reads=True, kept=True),
    NamedTool(name="spawn_agent"),
    NamedTool(name="send_message"),
    NamedTool(name="followup_task"),
    NamedTool(name="wait_agent", reads=True),
    NamedTool(name="list_agents", reads=True),
    NamedTool(name="interrupt_agent"),
    NamedTool(name="close_agent"),
    NamedTool(name="list_changes", reads=True),
    NamedTool(name="merge_changes"),
    NamedTool(name="discard_changes"),
    *PART_TOOLS,
)
TOOL_NAMES = tuple(one.name for one in _TOOLS)
TOOLS_WITHOUT_COMMANDS = frozenset(one.name for one in _TOOLS if not one.runs)
# What a model that may only read can call, also of the tools that come with MCP servers.
READING_TOOLS = frozenset(one.name for one in _TOOLS if one.reads) | {
    "tool_search",
    "list_mcp_resources",
    "list_mcp_resource_templates",
    "read_mcp_result",
}
ALWAYS_KEPT = frozenset(one.name for one in _TOOLS if one.kept)


def unknown_tool(names: Iterable[str]) -> str:
    """What is wrong with the first name that no tool has, and the names there are; "" if none."""
    for name in names:
        if name not in TOOL_NAMES:
            near = get_close_matches(name, TOOL_NAMES, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else "."
            return f"there is no tool `{name}`{hint} The tools: {', '.join(TOOL_NAMES)}"
    return ""
