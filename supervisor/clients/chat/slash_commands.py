"""The commands of the conversation, and how a typed line is read. Pure.

Only what can be done is listed: a command appears here when its capability exists.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from swarm.mailbox.base.errors import UsageError

CommandName = Literal[
    "help", "agents", "model", "effort", "plan", "accept", "approvals", "permissions", "status",
    "diff", "merge", "undo", "rollback", "fork", "compact", "context", "review", "tools", "skills",
    "goal", "memory", "mcp", "init", "name", "new", "resume", "detach", "quit",
]  # fmt: skip


class SlashCommand(NamedTuple):
    """One command. `most_words` limits its arguments; -1: the rest of the line is one text.

    `choices` are words that fit as arguments, for completion.
    """

    name: CommandName
    arguments: str
    short: str
    most_words: int = 0
    choices: tuple[str, ...] = ()


# A test compares these with the protocol, whose import would delay the first drawing.
EFFORT_WORDS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
SANDBOX_WORDS = ("read-only", "workspace-write", "danger-full-access")
APPROVAL_WORDS = ("untrusted", "on-failure", "on-request", "never")


CHOICE_WORDS = {
    "read-only": "read everything, write nothing",
    "workspace-write": "read everything, write in this folder and /tmp",
    "danger-full-access": "no sandbox at all",
    "untrusted": "ask before each command that does not only read",
    "on-failure": "ask when the sandbox refused something",
    "on-request": "ask when the agent wants more",
    "never": "never ask: what needs a yes is refused",
}
# Alone, these open the list of what may follow them, below the input line.
PICKERS = frozenset(("model", "resume", "permissions", "effort"))

SLASH_COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "", "the commands and keys"),
    SlashCommand("agents", "", "the tree of agents, all of it"),
    SlashCommand("model", "[NAME]", "another model from the next turn on; alone: choose one", 1),
    SlashCommand(
        "effort", "[LEVEL]", "how much it thinks: none, minimal, low … max", 1, EFFORT_WORDS
    ),
    SlashCommand("plan", "[TEXT|off]", "plan mode: only read, until the plan is accepted", -1),
    SlashCommand("accept", "[TEXT]", "accept the plan: the agent carries it out", -1),
    SlashCommand("approvals", "", "what waits for an answer, and what a reviewer denied"),
    SlashCommand(
        "permissions",
        "[SANDBOX] [APPROVAL]",
        "what the agent may do; alone: see it, and choose",
        2,
        (*SANDBOX_WORDS, *APPROVAL_WORDS),
    ),
    SlashCommand("status", "", "run, folder, model, rights, tokens, cost"),
    SlashCommand("diff", "[AGENT]", "what agents changed in files", 1),
    SlashCommand(
        "merge", "[AGENT]", "bring what agents changed in copies into the project, after a yes", 1
    ),
    SlashCommand("undo", "[AGENT]", "put files back as they were before an agent's turns", 1),
    SlashCommand("rollback", "[TURNS]", "forget the last turns; files stay", 1),
    SlashCommand("fork", "", "a new run with this history; /resume opens it"),
    SlashCommand("compact", "", "shorten the agent's history"),
    SlashCommand("context", "", "what the agent's requests are made of, and what is left"),
    SlashCommand("review", "[TEXT]", "a child reviews the changes", -1),
    SlashCommand("tools", "", "what the agent's role says and may use"),
    SlashCommand("skills", "", "the skills that agents have here"),
    SlashCommand(
        "goal",
        "[TEXT --verify COMMAND|pause|continue|clear]",
        "the run's goal, and how it stands; TEXT: a new one, which COMMAND checks",
        -1,
    ),
    SlashCommand("memory", "[WORDS]", "what earlier runs learned here; WORDS: a search", -1),
    SlashCommand("mcp", "", "the MCP servers that the agent may use, and its calls"),
    SlashCommand("init", "", "draft AGENTS.md for this project; shown before it is written"),
    SlashCommand("name", "NAME", "give the run a name, to find it again", 1),
    SlashCommand("new", "", "another conversation; this run goes on"),
    SlashCommand("resume", "[RUN]", "open another run; alone: choose one", 1),
    SlashCommand("detach", "", "leave; the run goes on"),
    SlashCommand("quit", "", "end the run and leave; `swarm resume` continues it"),
)
_BY_NAME: dict[str, SlashCommand] = {one.name: one for one in SLASH_COMMANDS}
_OTHER_NAMES = {"exit": "quit", "clear": "new", "agent": "agents", "cost": "status"}
BUILT_IN_NAMES = frozenset({*_BY_NAME, *_OTHER_NAMES})


class OwnCommand(NamedTuple):
    """A command file or a skill that is called by its name; the line is words for the agent."""

    name: str
    arguments: str
    short: str


class SlashCall(NamedTuple):
    """A command as typed."""

    name: CommandName
    words: tuple[str, ...] = ()


def parse_slash(line: str, own: Collection[str] = ()) -> SlashCall | None:
    """The command that a line calls; None if the line is words for the agent.

    A first word with a second slash (`/etc/hosts is wrong`) is a path, and a line that begins with
    a blank is always words. A lone `?` is /help. `own`: names of command files and skills; such a
    line is words, too.
    Raises UsageError for an unknown command or too many arguments.
    """
    if line.strip() == "?":
        return SlashCall("help")
    if not line.startswith("/") or "\n" in line.strip():
        return None
    head, _, rest = line[1:].strip().partition(" ")
    if not head or "/" in head:
        return None
    command = _BY_NAME.get(_OTHER_NAMES.get(head, head))
    if command is None and (head in own or head.removeprefix("prompts:") in own):
        return None
    if command is None:
        near = difflib.get_close_matches(head, [*_BY_NAME, *own], n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists all."
        raise UsageError(f"no command /{head}; {hint} A blank before it sends the line as words")
    if command.most_words < 0:
        return SlashCall(command.name, (rest.strip(),) if rest.strip() else ())
    words = tuple(rest.split())
    if len(words) > command.most_words:
        usage = f"/{command.name} {command.arguments}".rstrip()
        raise UsageError(f"/{head} takes fewer words: {usage}")
    return SlashCall(command.name, words)


def parse_shell(line: str) -> str | None:
    """The command of the person's own in a line that begins with `!`; None if it has none."""
    if not line.startswith("!") or not line[1:].strip():
        return None
    return line[1:].strip()


def matching_commands(
    typed: str, own: Sequence[OwnCommand] = ()
) -> list[SlashCommand | OwnCommand]:
    """The commands whose names begin with what follows the slash, then those that hold it.

    A command file of a built-in name is left out: the built-in one is meant.
    """
    usable = [one for one in own if one.name not in BUILT_IN_NAMES]
    known: list[SlashCommand | OwnCommand] = [*SLASH_COMMANDS, *usable]
    first = [one for one in known if one.name.startswith(typed)]
    return first + [one for one in known if typed in one.name and one not in first]


class ArgumentAt(NamedTuple):
    """The argument at the cursor: what is typed of it, and the words that fit."""

    typed: str = ""
    words: tuple[str, ...] = ()


def argument_at(before: str, known: Mapping[str, Collection[str]]) -> ArgumentAt:
    """What may stand at the end of this line as an argument of its command.

    `known`: words for commands by name, besides the fixed ones.
    """
    if not before.startswith("/") or " " not in before or "\n" in before:
        return ArgumentAt()
    head, *words = before[1:].split(" ")
    command = _BY_NAME.get(_OTHER_NAMES.get(head, head))
    if command is None or len(words) > max(command.most_words, 0):
        return ArgumentAt()
    typed = words[-1]
    choices = (*command.choices, *known.get(command.name, ()))
    return ArgumentAt(typed, tuple(one for one in choices if one.startswith(typed)))
