"""Hooks: programs of a person or a trusted project that run at certain points of a session."""

import shlex
from typing import Literal

from .values.base import Tagged, Value

HookEvent = Literal[
    "SessionStart",
    "SubagentStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "PreCompact",
    "PostCompact",
    "Notification",
    "ApprovalRequested",
    "Interrupt",
    "SessionEnd",
    "SubagentStop",
    "MergeConflict",
]
# codex: `hooks.json` and `[hooks]`; claude: `.claude/settings.json`. They differ in the JSON that a
# script reads about an edit of files.
HookForm = Literal["codex", "claude"]
HookStatus = Literal["completed", "failed", "blocked", "stopped"]
HookDecision = Literal["", "allow", "deny", "ask", "rewrite", "feedback", "context", "continue"]


class HookScript(Value):
    """A file of the project that a hook's command names, with the content that was trusted."""

    path: str  # absolute, canonical
    sha256: str


class CommandHook(Tagged, tag="command"):
    """Starts the hook's `command` in the agent's sandbox."""

    args: tuple[str, ...] | None = None  # None: `command` is for a shell; else it is a program


class HttpHook(Tagged, tag="http"):
    """Posts the hook's input to an address, from the agent's sandbox."""

    url: str
    headers: dict[str, str] = {}  # `$NAME` stands for a variable that `variables` names
    variables: tuple[str, ...] = ()


class McpHook(Tagged, tag="mcp"):
    """Calls a tool of an MCP server that the agent may use."""

    server: str
    tool: str
    arguments: dict[str, object] | None = None  # `${a.b}` stands for a field; None: the input


class PromptHook(Tagged, tag="prompt"):
    """Asks the agent's model for a yes or a no."""

    prompt: str  # `$ARGUMENTS` stands for the hook's input


HookAction = CommandHook | HttpHook | McpHook | PromptHook


class Hook(Value):
    """One action for one event."""

    hook_id: str  # of its definition: 12 hexadecimal digits
    event: HookEvent
    command: str  # for a shell; of another action what people are shown of it
    action: HookAction = CommandHook()
    matcher: str = ""  # regular expression, searched; "" = everything
    form: HookForm = "codex"
    timeout_s: float = 600.0
    network: bool = False
    fails_closed: bool = False  # `on_failure = "deny"`
    source: str = ""  # the file that names it
    folder: str = ""  # of the project that brings it; "" = the person's own
    managed: bool = False
    once: bool = False  # at most once for each agent
    background: bool = False  # nothing waits for it; it decides nothing
    condition: str = ""  # `Tool(pattern)`; only for such calls
    may_allow: bool = False  # its `allow` counts, if all that it starts is held
    scripts: tuple[HookScript, ...] = ()
    plugin: str = ""  # the folder of the plugin that brings it
    plugin_data: str = ""  # the plugin's own folder for what it keeps

    @property
    def line(self) -> str:
        """What it runs, in one line for people; untrusted text."""
        args = self.action.args if isinstance(self.action, CommandHook) else None
        return self.command if args is None else shlex.join((self.command, *args))


class HookRan(Tagged):
    """A hook has ended. `text` is its reason, context or fault; cut, untrusted."""

    turn_id: str
    hook_id: str
    event: HookEvent
    command: str  # cut
    source: str
    status: HookStatus
    decision: HookDecision = ""
    text: str = ""
    call_id: str = ""
    duration_s: float = 0.0
