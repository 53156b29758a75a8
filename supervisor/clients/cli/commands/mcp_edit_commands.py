"""`swarm mcp add|remove|enable|disable|trust`: the servers of a person's file or `.mcp.json`."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.config_writer import read_values
from swarm.roles.config.layers.merge import as_table
from swarm.roles.config.layers.toml_edit import ConfigEdit
from swarm.roles.config.mcp_table import SERVER_NAME, McpServerTable, transport_problem
from swarm.roles.pinned_programs import accept_program

from ....base.safe_text import clean_line
from ....runs.paths import find_user_paths
from ..base.confirmation import confirm
from ..base.lazy_commands import ColorCommand
from ..base.mcp_json_file import add_to_mcp_json
from ..run_setup.mcp_settings import server_place
from ..run_setup.run_settings import load_config_here
from .config_edit_commands import edit_user_config, warn_if_overridden


@click.command("add", cls=ColorCommand)
@click.argument("name")
@click.argument("target", nargs=-1)
@click.option("--url", help="A server over streamable HTTP.")
@click.option("-e", "--env", multiple=True, metavar="KEY=VALUE", help="A variable; repeatable.")
@click.option("--env-var", multiple=True, metavar="NAME", help="A variable to pass on; repeatable.")
@click.option("-H", "--header", multiple=True, metavar="'NAME: VALUE'", help="An HTTP header.")
@click.option("--bearer-token-env-var", metavar="NAME", help="The variable that holds a token.")
@click.option("-t", "--transport", type=click.Choice(["stdio", "http"]), help="As TARGET says.")
@click.option(
    "-s",
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    help="Your configuration file (the default), or .mcp.json in this folder.",
)
@click.option("--network", is_flag=True, help="Give the server the network.")
@click.option("--writable-root", multiple=True, metavar="DIR", help="A folder it may write.")
def add_server(
    name: str,
    target: tuple[str, ...],
    *,
    url: str | None,
    env: tuple[str, ...],
    env_var: tuple[str, ...],
    header: tuple[str, ...],
    bearer_token_env_var: str | None,
    transport: str | None,
    scope: str,
    network: bool,
    writable_root: tuple[str, ...],
) -> None:  # fmt: skip
    """Add a server, or replace the one of this name. Takes the words of Codex and Claude Code.

    \b
    Examples:
      swarm mcp add time -- mcp-server-time
      swarm mcp add docs --env ROOT=/srv/docs -- docs-server --read-only
      swarm mcp add api --url https://example.org/mcp --bearer-token-env-var API_TOKEN
      swarm mcp add --transport http api https://example.org/mcp
    """
    if not SERVER_NAME.match(name):
        raise UsageError(f"invalid server name '{name}' (use letters, numbers, '-', '_')")
    address, program = split_target(target, url=url, transport=transport)
    values: dict[str, object] = {
        "command": program[0] if program else None,
        "args": list(program[1:]),
        "env": dict(_pair(one, "=", "--env") for one in env),
        "env_vars": list(env_var),
        "url": address,
        "bearer_token_env_var": bearer_token_env_var,
        "http_headers": dict(_pair(one, ":", "--header") for one in header),
        "network": network,
        "writable_roots": [os.path.abspath(one) for one in writable_root],  # noqa: PTH100
    }
    table = _checked(name, values)
    if scope == "project":
        path = add_to_mcp_json(Path.cwd(), name, table)
        click.echo(f"Added MCP server '{name}' to {path}. `swarm trust` makes it count.")
        return
    before = _own_servers().get(name)
    _write(ConfigEdit(steps=("mcp_servers", name), value=table))
    click.echo(f"Added global MCP server '{name}'.")
    for note in _notes(name, program, before, table):
        click.echo(f"swarm: warning: {clean_line(note, limit=400)}", err=True)


@click.command("remove", cls=ColorCommand)
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, expose_value=False, help="Nothing is asked anyway.")
def remove_server(name: str) -> None:
    """Remove a server from the user's configuration file.

    \b
    Example:
      swarm mcp remove time
    """
    if name not in _own_servers():
        click.echo(f"No MCP server named '{name}' found.")
        return
    _write(ConfigEdit(steps=("mcp_servers", name)))
    click.echo(f"Removed global MCP server '{name}'.")


@click.command("enable", cls=ColorCommand)
@click.argument("name")
def enable_server(name: str) -> None:
    """Use a server in runs.

    \b
    Example:
      swarm mcp enable time
    """
    _check_own(name)
    _write(ConfigEdit(steps=("mcp_servers", name, "enabled"), value=True))
    click.echo(f"Enabled MCP server '{name}'.")


@click.command("disable", cls=ColorCommand)
@click.argument("name")
def disable_server(name: str) -> None:
    """Keep a server configured, and use it only where `--mcp` names it.

    \b
    Example:
      swarm mcp disable time
    """
    _check_own(name)
    _write(ConfigEdit(steps=("mcp_servers", name, "enabled"), value=False))
    click.echo(f"Disabled MCP server '{name}'.")


def split_target(
    target: tuple[str, ...], *, url: str | None, transport: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """The address and the program's words; one of them is empty. Raises UsageError."""
    is_address = len(target) == 1 and re.match(r"https?://", target[0]) is not None
    if transport == "stdio" and url is not None:
        raise UsageError("--url is not supported for stdio")
    if url is None and (transport == "http" or (transport is None and is_address)):
        if len(target) != 1:
            raise UsageError("a server over HTTP needs one address, for example https://HOST/mcp")
        return target[0], ()
    return url, target


def _notes(
    name: str, program: tuple[str, ...], before: object, table: Mapping[str, object]
) -> Iterator[str]:
    """What a person should know of a server that was added: what it replaced, what is missing."""
    if before is not None and before != table:
        old = as_table(before)
        further = sorted(old.keys() - {"url", "command"})
        shown = f"{old.get('url') or old.get('command')}{', with ' if further else ''}"
        yield f"it replaced the server `{name}` that was there: {shown}{', '.join(further)}"
    is_relative = bool(program) and "/" in program[0] and not program[0].startswith("/")
    if program and not is_relative and shutil.which(program[0]) is None:
        yield f"there is no program `{program[0]}` here; install it, or add the server again"


def _check_own(name: str) -> None:
    """Raises UsageError unless the user's own file has this server."""
    if name in _own_servers():
        return
    loaded = load_config_here(lenient=True)
    if name in loaded.config.mcp_servers:
        place = server_place(name, loaded.layers)
        raise UsageError(f"'{name}' is not in your own configuration file: edit {place}")
    raise UsageError(f"No MCP server named '{name}' found.")


def _own_servers() -> dict[str, object]:
    _, values = read_values(find_user_paths(dict(os.environ)).config / "config.toml")
    return as_table(values.get("mcp_servers"))


def _checked(name: str, values: dict[str, object]) -> dict[str, object]:
    """The table with what was given. Raises UsageError if no server can be reached by it."""
    table = {key: value for key, value in values.items() if value}
    problem = transport_problem(msgspec.convert(table, McpServerTable))
    if problem is not None:
        raise UsageError(f"{name}: {problem}")
    return table


def _pair(text: str, sign: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise UsageError(f"{option} {text!r}: write NAME{sign}VALUE")
    return name.strip(), value.strip() if sign == ":" else value


def _write(edit: ConfigEdit) -> None:
    warn_if_overridden(edit_user_config(edit, None))


@click.command("trust", cls=ColorCommand)
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Without a question; for scripts.")
def trust_server(name: str, *, yes: bool) -> None:
    """Let a server that lies in this project have its rights as it is now.

    What it consists of is compared with its last start; after a change it runs without network,
    credentials and folders to write until you have said that the change is right.

    \b
    Example:
      swarm mcp trust docs
    """
    from ..base.mcp_process import server_program  # not for the other commands of this group

    found = server_program(name)
    if found is None:
        click.echo(f"no part of {name} is compared: `swarm mcp doctor {name}` says how it starts")
        return
    if found.changes is None:
        click.echo(f"{name} is what ran before, or has not run yet; nothing is to be done")
        return
    question = f"Let {name} run with its rights as it is now?"
    words = shlex.join(found.program.words)
    confirm(question, yes=yes, details=(f"it runs: {words}", *found.changes.lines()))
    accept_program(found.store, found.program, found.changes)
    click.echo(f"{name} has its rights again, from its next start on")
