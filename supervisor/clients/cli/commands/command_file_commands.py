"""`swarm commands list|show`: the command files that a person may call here, and what they cost."""

import os
from collections.abc import Iterable

import click

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.commands.command_file import PromptCommand

from ....base.safe_text import clean_block, clean_line
from ....runs.paths import find_user_paths
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..run_setup.command_settings import find_run_commands
from ..run_setup.run_settings import load_config_here

_BYTES_PER_TOKEN = 4


@click.group("commands")
def commands() -> None:
    """List and show command files: prompts that you call by /NAME.

    \b
    Example:
      swarm commands list
    """


def _load() -> tuple[PromptCommand, ...]:
    loaded = load_config_here()
    found = find_run_commands(loaded, find_user_paths(dict(os.environ)).config)
    _say((*loaded.warnings, *found.warnings))
    return found.commands


def _say(warnings: Iterable[str]) -> None:
    for warning in warnings:
        click.echo(f"swarm: warning: {clean_line(warning, limit=400)}", err=True)


@commands.command("list", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a command.")
def list_commands(*, as_json: bool) -> None:
    """All commands of this folder, with what each costs and runs.

    \b
    Example:
      swarm commands list
    """
    found = _load()
    _say(warning for command in found for warning in command.warnings)
    if as_json:
        for command in found:
            print_json(_fields(command))
        return
    if not found:
        click.echo("no command file counts here; .agents/commands/NAME.md makes /NAME")
        return
    print_columns(
        ("COMMAND", "FROM", "READ", "RUNS", "WHAT IT IS FOR"),
        [
            (
                f"/{command.name} {command.hint}".rstrip(),
                command.scope,
                f"{_tokens(command)} tokens",
                _count(len(command.shell_lines)),
                command.description,
            )
            for command in found
        ],
    )


@commands.command("show", cls=ColorCommand)
@click.argument("name")
def show_command(name: str) -> None:
    """Where a command lies, what it runs, and its text.

    \b
    Example:
      swarm commands show review
    """
    found = _load()
    named = [one for one in found if one.name == name.removeprefix("/")]
    if not named:
        known = ", ".join(f"/{one.name}" for one in found) or "none"
        raise UsageError(f"there is no command file {name!r} here; there are: {known}")
    (command,) = named
    _say(command.warnings)
    click.echo(clean_line(f"{command.path} ({command.scope})", limit=4_096))
    click.echo(clean_line(f"/{command.name} {command.hint}".rstrip(), limit=400))
    for line in command.shell_lines:
        click.echo(clean_line(f"runs: {line}", limit=4_096))
    click.echo(clean_block(command.body))


def _count(number: int) -> str:
    return "-" if not number else f"{number} command{'' if number == 1 else 's'}"


def _tokens(command: PromptCommand) -> int:
    return -(-len(command.body.encode()) // _BYTES_PER_TOKEN)


def _fields(command: PromptCommand) -> dict[str, object]:
    return {
        "name": command.name,
        "description": command.description,
        "arguments": command.hint,
        "path": command.path,
        "scope": command.scope,
        "tokens": _tokens(command),
        "runs": command.shell_lines,
        "warnings": command.warnings,
    }
