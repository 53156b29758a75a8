"""Decides whether a call of an MCP tool may run, must be asked about, or is refused. Pure.

Source: Codex's rules (tools sheet 12.4). Stricter here: under `never` a call that would be asked
about is refused unless the run has no sandbox; and an approval for longer than once holds only
while the server says the same of the tool.
"""

import msgspec

from swarm.mailbox.protocol.mcp import McpAnnotations, McpTool
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits

from .command_decision import Ask, PolicyDecision, Refuse, Run

NEVER_ASKED = (
    "MCP tool call not approved: this tool may change something or reach out, that needs an "
    "approval, and the approval policy `never` asks for none. Find another way, or say in your "
    "answer what is left undone"
)
PLANNING = (
    "MCP tool call not run: in plan mode only tools that say that they read (readOnlyHint) run. "
    "Put the call into your plan"
)
NOT_ASKED_HERE = (
    "MCP tool call not approved: this run's configuration does not ask about MCP tools "
    "(mcp_elicitations = false)"
)


def needs_approval(said: McpAnnotations) -> bool:
    """By what the server says of the tool; what it does not say counts as the worse."""
    if said.destructive is True:
        return True
    if said.read_only is True:
        return False
    return said.destructive is not False or said.open_world is not False


def decide_mcp_call(tool: McpTool, limits: Limits) -> PolicyDecision:
    """Run, Ask or Refuse."""
    if limits.planning and tool.annotations.read_only is not True:
        return Refuse(reason=PLANNING)
    if tool.approval == "approve":
        return Run()
    if tool.approval == "auto" and not needs_approval(tool.annotations):
        return Run()
    if limits.approval == "never":
        unconfined = isinstance(limits.sandbox, DangerFullAccess)
        return Run() if unconfined else Refuse(reason=NEVER_ASKED)
    if limits.granular is not None and not limits.granular.mcp_elicitations:
        return Refuse(reason=NOT_ASKED_HERE)
    return Ask(subject=f"the MCP tool {tool.tool} of {tool.server}", cause="mcp_tool")


def session_keys(tool: McpTool) -> tuple[str, ...]:
    """What an approval for longer than once covers: this tool, as it is described now."""
    if tool.approval == "prompt":
        return ()
    body = {"tool": "mcp", "server": tool.server, "name": tool.tool, "described_as": tool.digest}
    return (msgspec.json.encode(body, order="sorted").decode(),)
