"""Hooks: programs of a person or a trusted project that run at certain points of a session."""

from typing import Literal

from .base import Tagged, Value

HookEvent = Literal[
    "SessionStart",
    "SubagentStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "Stop",
    "SubagentStop",
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


class Hook(Value):
    """One command for one event."""

    hook_id: str  # of its definition: 12 hexadecimal digits
    event: HookEvent
    command: str  # for a shell
    matcher: str = ""  # regular expression, searched; "" = everything
    form: HookForm = "codex"
    timeout_s: float = 600.0
    network: bool = False
    fails_closed: bool = False  # `on_failure = "deny"`
    source: str = ""  # the file that names it
    folder: str = ""  # of the project that brings it; "" = the person's own
    managed: bool = False
    scripts: tuple[HookScript, ...] = ()
    plugin: str = ""  # the folder of the plugin that brings it
    plugin_data: str = ""  # the plugin's own folder for what it keeps


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
