"""Reads command files: a prompt with places for words, files and outputs of commands. Pure.

Sources: the command files of Claude Code (`.claude/commands`) and the prompts of Codex
(`.codex/prompts`). No key of a file gives a right.
"""

import re
from collections.abc import Iterable
from pathlib import PurePath

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

from ...markdown.front_matter import MarkdownFile, parse_markdown
from ...markdown.markdown_discovery import FoundMarkdown, MarkdownScope

MOST_LINES = 16  # of commands in one file
SHELL = re.compile(r"(?<![\w`!])!`(?P<shell>[^`\n]{1,4000})`")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?::[\w.-]+)*\Z")
_DESCRIPTION_CHARS = 300
_OBEYED = frozenset({"description", "argument-hint", "name"})
# Keys without effect here, and what holds instead.
_IDLE = {
    "allowed-tools": "it gives no right: each command is judged as one of the agent's own",
    "model": "it changes no model; `/model NAME` or `swarm set --model` does",
    "disable-model-invocation": "",  # models never call a command here
    "user-invocable": "a command is for the person",
}


class PromptCommand(Value):
    """One usable command. `name` is what follows the slash; `warnings` say what does not hold."""

    name: str
    path: str
    scope: MarkdownScope
    body: str
    description: str = ""
    hint: str = ""  # which words it takes
    is_prompt: bool = False  # of a folder `prompts`: `$NAME` must be given as NAME=value
    warnings: tuple[str, ...] = ()

    @property
    def shell_lines(self) -> tuple[str, ...]:
        """The commands that the agent runs when it is called, as written."""
        return tuple(found["shell"].strip() for found in SHELL.finditer(self.body))


class FoundCommands(Value):
    """The commands in the order of their names, and which files were left out."""

    commands: tuple[PromptCommand, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_command(found: FoundMarkdown) -> PromptCommand:
    """The command in this file. Raises UsageError: the text says what is wrong with it."""
    if found.problem:
        raise UsageError(found.problem)
    name = re.sub(r"[^\w.:-]+", "-", found.name)
    if not _NAME.match(name) or len(name) > 128:
        raise UsageError("a command's name has letters, digits, `-`, `_` and `.`")
    is_odd = name != found.name
    odd = [f"{found.path}: it is called /{name}, for a name has no blanks"] if is_odd else []
    file = parse_markdown(found.data)
    if not file.body:
        raise UsageError("it has no text")
    if len(SHELL.findall(file.body)) > MOST_LINES:
        raise UsageError(f"more than {MOST_LINES} commands (!`…`)")
    first = next(line.strip("# ").strip() for line in file.body.splitlines() if line.strip())
    return PromptCommand(
        name=name,
        path=found.path,
        scope=found.scope,
        body=file.body,
        description=(file.text("description") or first)[:_DESCRIPTION_CHARS],
        hint=file.text("argument-hint")[:_DESCRIPTION_CHARS],
        is_prompt=PurePath(found.root).name == "prompts",
        warnings=(*odd, *_idle_keys(found.path, file)),
    )


def _idle_keys(path: str, file: MarkdownFile) -> Iterable[str]:
    for key in file.fields:
        if key in _OBEYED or _IDLE.get(key) == "":
            continue
        yield f"{file.place(path, key)}: {_IDLE.get(key, 'no key of a command; it has no effect')}"


def parse_commands(
    files: Iterable[FoundMarkdown], *, taken: frozenset[str] = frozenset()
) -> FoundCommands:
    """Parse what was read, the highest first; a later file of a name that is there is left out.

    Args:
        files: In the order of precedence.
        taken: Names of the conversation's commands: a file of such a name is warned of.
    """
    found: dict[str, PromptCommand] = {}
    warnings: list[str] = []
    for file in files:
        try:
            command = parse_command(file)
        except UsageError as error:
            text = str(error)
            where = "" if text.startswith(file.path) else f"{file.path}: "
            warnings.append(f"{where}{text}; this command is left out")
            continue
        if command.name in taken:
            note = (
                f"{command.path}: /{command.name} is a command of the conversation itself, which "
                "wins there; rename the file to use it"
            )
            command = msgspec.structs.replace(command, warnings=(*command.warnings, note))
        if (other := found.get(command.name)) is not None:
            warnings.append(
                f"{command.path}: /{command.name} is taken by {other.path}; this one is left out"
            )
            continue
        found[command.name] = command
    ordered = tuple(sorted(found.values(), key=lambda one: one.name))
    return FoundCommands(commands=ordered, warnings=tuple(warnings))
