"""What the tool names of an agent file (`Read`, `Bash`, `mcp__server__tool`) mean here. Pure.

Source: the agent files of Claude Code. A name can only take away: what a file does not name, its
agent does not have. Where one tool here does more than the file's, the sandbox or the approvals
hold the rest back.
"""

import re
from collections.abc import Iterator, Sequence

from swarm.mailbox.parts.tool_names import TOOL_NAMES
from swarm.mailbox.protocol.settings import ToolChoice
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import AskForApproval

_READ = ("exec_command", "write_stdin", "list_dir", "view_image")
_RUN = ("exec_command", "write_stdin")
_WRITE = ("apply_patch", "edit_file")
_TEAM = (
    "spawn_agent", "send_message", "followup_task", "wait_agent", "list_agents", "interrupt_agent",
    "close_agent", "spawn_agents_on_csv",
)  # fmt: skip
_READERS = frozenset({"Read", "Grep", "Glob", "LS", "NotebookRead"})
_RUNNERS = frozenset({"Bash", "BashOutput", "KillShell", "KillBash"})
_WRITERS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
_OTHERS: dict[str, tuple[str, ...]] = {
    "Task": _TEAM, "Agent": _TEAM, "TodoWrite": ("update_plan",), "TodoRead": ("update_plan",),
    "AskUserQuestion": ("request_user_input",), "Skill": (), "SlashCommand": (),
}  # fmt: skip
_IDLE = {
    "WebFetch": "there is no such tool here; an MCP server may give one",
    "WebSearch": "there is no such tool here; an MCP server may give one",
    "ExitPlanMode": "a person ends plan mode here (`swarm accept`)",
}
_PATTERN = re.compile(r"(?P<name>\w+)\((?P<inside>.*)\)\Z", re.DOTALL)
_MCP = re.compile(r"mcp__(?P<server>[\w-]{1,128}?)(?:__(?P<tool>[\w*-]{1,128}))?\Z")


class MappedTools(Value):
    """What `tools` and `disallowedTools` come to. `servers` None: those of the parent."""

    choice: ToolChoice = ToolChoice()
    reads_only: bool = False  # it may only read: its sandbox is read-only
    approval: AskForApproval | None = None
    servers: tuple[str, ...] | None = None
    server_tools: dict[str, tuple[str, ...]] = {}
    notes: tuple[tuple[str, str], ...] = ()  # (key of the file, what does not hold as written)


def map_tools(tools: Sequence[str] | None, without: Sequence[str]) -> MappedTools:
    """Map both lists. `tools` None: the file does not set it, so its agent has the parent's."""
    notes = [*_notes("tools", tools or ()), *_notes("disallowedTools", without)]
    exclude = dict.fromkeys(name for word in without for name in _taken_away(word))
    if tools is None or "*" in tools:
        return MappedTools(choice=ToolChoice(exclude=tuple(exclude)), notes=tuple(notes))
    names = {_bare(word) for word in tools} - {_bare(word) for word in without if "(" not in word}
    only = dict.fromkeys(name for word in tools if _bare(word) in names for name in _given(word))
    servers, server_tools = _mcp_choice(tools)
    reads_only = not names & (_RUNNERS | _WRITERS)
    approval = _approval(tools, names, reads_only=reads_only)
    if approval is not None:
        notes.append((
            "tools",
            "reading and limited commands are `exec_command` here: this agent is asked about each "
            "command that is not known to be harmless (approval untrusted)",
        ))  # fmt: skip
    return MappedTools(
        choice=ToolChoice(only=tuple(only), exclude=tuple(exclude)),
        reads_only=reads_only, approval=approval, servers=servers, server_tools=server_tools,
        notes=tuple(notes),
    )  # fmt: skip


def _approval(tools: Sequence[str], names: set[str], *, reads_only: bool) -> AskForApproval | None:
    """`untrusted` where commands here would do more than the file's tools."""
    patterns = any(_bare(word) == "Bash" and "(" in word for word in tools)
    reads = bool(names & _READERS) and not names & _RUNNERS
    return "untrusted" if patterns or (reads and not reads_only) else None


def _bare(word: str) -> str:
    found = _PATTERN.match(word)
    return found["name"] if found else word


def _given(word: str) -> tuple[str, ...]:
    name = _bare(word)
    if name in _READERS:
        return _READ
    if name in _RUNNERS:
        return _RUN
    if name in _WRITERS:
        return _WRITE
    return (name,) if name in TOOL_NAMES else _OTHERS.get(name, ())


def _taken_away(word: str) -> tuple[str, ...]:
    name = _bare(word)
    return () if "(" in word or name in _READERS else _given(word)


def _notes(key: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name = _bare(word)
        is_known = name in _READERS | _RUNNERS | _WRITERS or name in {*_OTHERS, *TOOL_NAMES, "*"}
        if name in _IDLE:
            yield key, f"{name}: {_IDLE[name]}"
        elif not is_known and not _MCP.match(word):
            yield key, f"{name}: no tool of this name is known; it is left out"
        elif "(" in word:
            yield key, f"{word}: the words in parentheses do not hold here; write a rule for them"
        elif key == "disallowedTools" and (name in _READERS or _MCP.match(word)):
            yield key, f"{name}: this cannot be taken away alone here; it stays"


def _mcp_choice(
    tools: Sequence[str],
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The servers that are named, and the tools of those of which only some are."""
    named: dict[str, set[str]] = {}
    whole: set[str] = set()
    for word in tools:
        found = _MCP.match(word)
        if found is None:
            continue
        tool = found["tool"]
        if tool in {None, "*"}:
            whole.add(found["server"])
        else:
            named.setdefault(found["server"], set()).add(tool)
    some = {server: tuple(sorted(one)) for server, one in named.items() if server not in whole}
    return tuple(sorted({*named, *whole})), some
