"""The commands of the conversation, and how a typed line is read. Pure.

Only what can be done is listed: a command appears here when its capability exists.
"""

import difflib
from typing import Literal, NamedTuple

from swarm.mailbox.errors import UsageError

CommandName = Literal[
    "help", "agents", "model", "effort", "approvals", "permissions", "status", "diff", "undo",
    "rollback", "fork", "compact", "review", "tools", "new", "resume", "detach", "quit",
]  # fmt: skip


class SlashCommand(NamedTuple):
    """One command. `most_words` limits its arguments; -1: the rest of the line is one text."""

    name: CommandName
    arguments: str
    short: str
    most_words: int = 0


SLASH_COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "", "the commands and keys"),
    SlashCommand("agents", "", "the tree of agents, all of it"),
    SlashCommand(
        "model", "[NAME]", "another model from the next turn on; alone: the known ones", 1
    ),
    SlashCommand("effort", "LEVEL", "none, minimal, low, medium, high, xhigh", 1),
    SlashCommand("approvals", "", "what waits for an answer, and what a reviewer denied"),
    SlashCommand("permissions", "[SANDBOX] [APPROVAL]", "what the agent may do; narrow it", 2),
    SlashCommand("status", "", "run, folder, model, tokens, cost"),
    SlashCommand("diff", "[AGENT]", "what agents changed in files", 1),
    SlashCommand("undo", "[AGENT]", "put files back as they were before an agent's turns", 1),
    SlashCommand("rollback", "[TURNS]", "forget the last turns; files stay", 1),
    SlashCommand("fork", "", "a new run with this history; /resume opens it"),
    SlashCommand("compact", "", "shorten the agent's history"),
    SlashCommand("review", "[TEXT]", "a child reviews the changes", -1),
    SlashCommand("tools", "", "what the agent's role says and may use"),
    SlashCommand("new", "", "another conversation; this run goes on"),
    SlashCommand("resume", "[RUN]", "open another run; alone: list them", 1),
    SlashCommand("detach", "", "leave; the run goes on"),
    SlashCommand("quit", "", "end the run and leave; `swarm resume` continues it"),
)
_BY_NAME = {one.name: one for one in SLASH_COMMANDS}


class SlashCall(NamedTuple):
    """A command as typed."""

    name: CommandName
    words: tuple[str, ...] = ()


def parse_slash(line: str) -> SlashCall | None:
    """The command that a line calls; None if the line is words for the agent.

    A first word with a second slash (`/etc/hosts is wrong`) is a path, and a line that begins with
    a blank is always words. Raises UsageError for an unknown command or too many arguments.
    """
    if not line.startswith("/") or "\n" in line.strip():
        return None
    head, _, rest = line[1:].strip().partition(" ")
    if not head or "/" in head:
        return None
    command = next((one for name, one in _BY_NAME.items() if name == head), None)
    if command is None:
        near = difflib.get_close_matches(head, list(_BY_NAME), n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists all"
        raise UsageError(f"no command /{head}; {hint} A blank before it sends the line as words")
    if command.most_words < 0:
        return SlashCall(command.name, (rest.strip(),) if rest.strip() else ())
    words = tuple(rest.split())
    if len(words) > command.most_words:
        usage = f"/{command.name} {command.arguments}".rstrip()
        raise UsageError(f"/{head} takes fewer words: {usage}")
    return SlashCall(command.name, words)


def matching_commands(typed: str) -> list[SlashCommand]:
    """The commands whose names begin with what follows the slash, then those that hold it."""
    first = [one for one in SLASH_COMMANDS if one.name.startswith(typed)]
    return first + [one for one in SLASH_COMMANDS if typed in one.name and one not in first]
