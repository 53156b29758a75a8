"""Writes docs/swarm.1, the manual page, from the help texts of all commands.

`scripts/man_page.py` writes it; `--check` says whether it is as it would be written.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from swarm.supervisor.clients.cli.base.lazy_commands import COMMAND_GROUPS, LAZY_COMMANDS
from swarm.supervisor.clients.cli.main import cli

PAGE = Path(__file__).parents[1] / "docs" / "swarm.1"


def main() -> int:
    """Write the page, or 1 if `--check` finds another text in it."""
    text = "\n".join(page()) + "\n"
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("docs/swarm.1 is not what the commands' help says: run scripts/man_page.py")
    return 1


def page() -> Iterator[str]:
    """The lines of the page in the `man` macros of roff."""
    yield '.TH SWARM 1 "" "swarm" "User Commands"'
    yield from (".SH NAME", r"swarm \- a supervised swarm of coding agents")
    yield from (".SH SYNOPSIS", r".B swarm", r"[\fIOPTIONS\fR] [\fICOMMAND\fR] [\fIARGUMENTS\fR]")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(cli.help or "")
    yield from _options(cli, click.Context(cli, info_name="swarm"))
    for group, names in COMMAND_GROUPS.items():
        yield f".SH {group.upper()}"
        for name in names:
            if name in LAZY_COMMANDS:
                yield from _command(name)
    yield from (".SH SEE ALSO", "README.md and the folder docs of the source.")


def _command(name: str) -> Iterator[str]:
    top = click.Context(cli, info_name="swarm")
    command = cli.get_command(top, name)
    assert command is not None  # the list and the commands are compared by a test
    yield from _one(command, click.Context(command, info_name=name, parent=top))


def _one(command: click.Command, ctx: click.Context) -> Iterator[str]:
    yield f".SS {_roff(ctx.command_path)} {_roff(' '.join(command.collect_usage_pieces(ctx)))}"
    yield from _paragraphs(command.help or "")
    yield from _options(command, ctx)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None and not below.hidden:
                yield from _one(below, click.Context(below, info_name=name, parent=ctx))


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    for param in command.params:
        record = param.get_help_record(ctx)
        if record is not None and param.name not in ("color", "help"):
            yield ".TP"
            yield rf"\fB{_roff(record[0])}\fR"
            yield _roff(record[1])


def _paragraphs(text: str) -> Iterator[str]:
    r"""The texts of a help; what follows click's `\b` keeps its lines."""
    for paragraph in text.strip().split("\n\n"):
        lines = [line.rstrip() for line in paragraph.split("\n")]
        yield ".PP"
        if lines[0].strip() == "\b":
            yield from (".nf", *(_roff(line) for line in lines[1:]), ".fi")
        else:
            yield _roff(" ".join(line.strip() for line in lines))


def _roff(text: str) -> str:
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return r"\&" + text if text.startswith((".", "'")) else text


if __name__ == "__main__":
    sys.exit(main())
