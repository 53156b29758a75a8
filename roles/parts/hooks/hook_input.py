"""What a hook reads on its standard input: the JSON of both products, with swarm's own. Pure.

Source: Codex and Claude Code. The fields `agent_path` and `agent_depth` are swarm's own. A hook of
Claude's form is told of each changed file as of a call of `Edit` or `Write`.
"""

from collections.abc import Mapping

import msgspec

from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.hooks import HookForm
from swarm.mailbox.protocol.values.base import Value

MAX_FILES = 100  # of one call that a hook of Claude's form is asked about, one by one
_EDIT_NAMES = ("apply_patch", "Write", "Edit", "MultiEdit")
# Names by which Claude's matchers know tools of swarm.
_CLAUDE_NAMES = {
    "spawn_agent": ("Task", "Agent"), "view_image": ("Read",), "list_dir": ("LS", "Glob"),
    "update_plan": ("TodoWrite",), "request_user_input": ("AskUserQuestion",),
}  # fmt: skip
# Kinds of notifications, for matchers.
IDLE_NOTIFICATION = "idle_prompt"
PERMISSION_NOTIFICATION = "permission_prompt"
SHELL = "Bash"
PATCH = "apply_patch"

Fields = Mapping[str, object]


class HookSession(Value):
    """What every hook of an agent is told."""

    session_id: str
    cwd: str
    model: str
    permission_mode: str
    agent_id: str
    agent_path: str
    agent_type: str
    agent_depth: int


class ToolUse(Value):
    """One call as hooks see it: its names for matchers, its canonical name, its input."""

    names: tuple[str, ...]
    tool_name: str
    tool_input: dict[str, object]


def shell_use(command: str, *, tool: str, description: str = "") -> ToolUse:
    """A command, or what is typed into a running one."""
    given: dict[str, object] = {"command": command}
    if description:
        given["description"] = description
    return ToolUse(names=(SHELL, tool), tool_name=SHELL, tool_input=given)


def patch_uses(
    changes: tuple[FileChange, ...], text: str, *, tool: str, form: HookForm
) -> tuple[ToolUse, ...]:
    """A change of files: one use with the patch, or one for each file in Claude's form."""
    names = tuple(dict.fromkeys((*_EDIT_NAMES, tool)))
    if form == "codex":
        files = [change.path for change in changes]
        given: dict[str, object] = {"command": text, "file_paths": files}
        return (ToolUse(names=names, tool_name=PATCH, tool_input=given),)
    return tuple(
        ToolUse(names=names, tool_name=name, tool_input=given)
        for change in changes
        for name, given in _file_inputs(change)
    )


def other_use(tool: str, given: dict[str, object]) -> ToolUse:
    """A call of any other tool."""
    names = (tool, *_CLAUDE_NAMES.get(tool, ()))
    return ToolUse(names=names, tool_name=tool, tool_input=given)


def mcp_use(server: str, tool: str, given: dict[str, object]) -> ToolUse:
    """A call of a tool of an MCP server."""
    name = f"mcp__{server}__{tool}"
    return ToolUse(names=(name,), tool_name=name, tool_input=given)


def encode_input(event: str, session: HookSession, turn_id: str, extra: Fields) -> bytes:
    """One JSON object and a line feed."""
    fields: dict[str, object] = {
        "session_id": session.session_id,
        "transcript_path": None,
        "cwd": session.cwd,
        "hook_event_name": event,
        "model": session.model,
        "permission_mode": session.permission_mode,
        "agent_path": session.agent_path,
        "agent_depth": session.agent_depth,
    }
    if turn_id and event not in ("SessionStart", "SubagentStart", "SessionEnd"):
        fields["turn_id"] = turn_id
    if session.agent_depth or event.startswith("Subagent"):
        fields |= {"agent_id": session.agent_id, "agent_type": session.agent_type}
    return msgspec.json.encode({**fields, **extra}) + b"\n"


def _file_inputs(change: FileChange) -> list[tuple[str, dict[str, object]]]:
    old, new = _sides(change.unified_diff)
    if change.kind == "add":
        return [("Write", {"file_path": change.path, "content": new})]
    given: dict[str, object] = {"file_path": change.path, "old_string": old, "new_string": new}
    moved: list[tuple[str, dict[str, object]]] = []
    if change.move_path:
        moved.append(("Write", {"file_path": change.move_path, "content": new}))
    return [("Edit", given), *moved]


def _sides(diff: str) -> tuple[str, str]:
    """The lines that a diff removes and adds, without context; another text counts as added."""
    if "@@" not in diff:
        return "", diff
    old: list[str] = []
    new: list[str] = []
    inside = False
    for line in diff.splitlines():
        if line.startswith("@@"):
            inside = True
        elif inside and line.startswith("-"):
            old.append(line[1:])
        elif inside and line.startswith("+"):
            new.append(line[1:])
    return "\n".join(old), "\n".join(new)
