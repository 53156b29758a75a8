"""`swarm mcp tools|call|doctor|logs`: use configured servers outside of a run, and read their logs.

They start through the hub's own code: with the sandbox, the variables and the limits of a run.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.bounded_formats import decode_json
from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.mcp import McpOutcome, McpText, McpTool, McpTools
from swarm.roles.config.schema import Config

from ....base.safe_text import clean_block, clean_line
from ....parts.mcp.log_files import log_path
from ....runs.paths import find_run, find_user_paths, paths_of_run
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..base.typed_answers import parse_answers
from ..run_setup.run_settings import load_config_here

_JSON = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
_MAX_LOG_BYTES = 2 << 20


@click.command("tools", cls=ColorCommand)
@click.argument("name", required=False)
@_JSON
def list_tools(name: str | None, *, as_json: bool) -> int:
    """Start one server, or all, and list the tools; exit code 1 if one cannot be used.

    \b
    Example:
      swarm mcp tools time
    """
    from ..base.mcp_process import list_server_tools  # not for `swarm mcp list`

    found = list_server_tools(() if name is None else (name,))
    if as_json:
        failures = {one.server: one.reason for one in found.failures}
        print_json({"tools": [_tool_json(one) for one in found.tools], "failures": failures})
    else:
        rows = [(one.name, one.approval, one.description) for one in found.tools]
        print_columns(("NAME", "APPROVAL", "DESCRIPTION"), rows)
    for failure in found.failures:
        click.echo(f"swarm: {failure.server}: {clean_line(failure.reason, limit=600)}", err=True)
    return 1 if found.failures else 0


@click.command("call", cls=ColorCommand)
@click.argument("server")
@click.argument("tool")
@click.argument("arguments", default="{}")
@click.option(
    "--answer", "answers", multiple=True, metavar="FIELD=TEXT",
    help="If the server asks for a form: the answer to a field; repeat for several.",
)  # fmt: skip
@click.option("--answer-defaults", is_flag=True, help="Answer its forms with their defaults.")
@_JSON
def call_tool(
    server: str,
    tool: str,
    arguments: str,
    *,
    answers: tuple[str, ...],
    answer_defaults: bool,
    as_json: bool,
) -> int:
    """Call a tool once, as an agent would, but without an approval; exit code 1 if it failed.

    What the server asks meanwhile is declined, unless an answer is given here.

    \b
    Example:
      swarm mcp call time get_current_time '{"timezone": "UTC"}'
    """
    from ..base.mcp_process import ServerCall, call_server_tool

    try:
        given: object = decode_json(arguments)
    except msgspec.DecodeError as error:
        raise UsageError(f"the arguments are no JSON: {error}") from error
    if not isinstance(given, dict):
        raise UsageError("the arguments must be a JSON object")
    typed = parse_answers(answers) if answers or answer_defaults else None
    outcome = call_server_tool(ServerCall(server, tool, arguments.encode(), typed))
    if as_json:
        print_json(msgspec.to_builtins(outcome))
    elif outcome.state != "completed":
        raise SwarmError(f"{server}: {tool}: {clean_line(outcome.message, limit=600)}")
    else:
        _print_parts(outcome)
    return int(outcome.state != "completed" or outcome.is_error)


@click.command("doctor", cls=ColorCommand)
@click.argument("name", required=False)
@_JSON
def check_servers(name: str | None, *, as_json: bool) -> int:
    """Start one server, or all that are enabled, and say what works; exit code 1 if one does not.

    \b
    Example:
      swarm mcp doctor
    """
    from ..base.mcp_process import list_server_tools

    loaded = load_config_here(lenient=True)
    names = [one for one, table in loaded.config.mcp_servers.items() if table.enabled]
    checks = [
        {"server": one, **_check(one, list_server_tools, loaded.config)}
        for one in (names if name is None else [name])
    ]
    for check in checks if as_json else ():
        print_json(check)
    if not as_json:
        rows = [(str(one["state"]), str(one["server"]), str(one["detail"])) for one in checks]
        print_columns(("STATE", "SERVER", "DETAIL"), rows)
        if not checks:
            click.echo("no MCP server is enabled; `swarm mcp list` shows those that are configured")
    return int(any(check["state"] == "fail" for check in checks))


@click.command("logs", cls=ColorCommand)
@click.argument("name", required=False)
@click.argument("run", required=False)
@click.option("-n", "--lines", default=100, show_default=True, help="How many lines of its end.")
def show_log(name: str | None, run: str | None, *, lines: int) -> None:
    """Print what a server wrote to its standard error in a run (the newest), and its log messages.

    Without NAME: the servers that wrote something.

    \b
    Example:
      swarm mcp logs time
    """
    places = find_user_paths(dict(os.environ))
    found = paths_of_run(places, find_run(places, run))
    run_name = short_id(found.folder.name)
    known = sorted(path.stem for path in found.mcp_logs.glob("*.log"))
    if name is None:
        click.echo("\n".join(known) or f"no MCP server wrote anything in run {run_name}")
        return
    if name not in known:
        listed = ", ".join(known) or "none"
        raise UsageError(f"'{name}' wrote nothing in run {run_name}; servers that did: {listed}")
    text = clean_block(_read_log(log_path(found.mcp_logs, name)))
    click.echo("\n".join(text.splitlines()[-max(lines, 0) :]))


def _tool_json(tool: McpTool) -> dict[str, object]:
    plain = msgspec.to_builtins(msgspec.structs.replace(tool, parameters=b""))
    return {**plain, "parameters": decode_json(tool.parameters)}


def _print_parts(outcome: McpOutcome) -> None:
    for part in outcome.parts:
        if isinstance(part, McpText):
            click.echo(clean_block(part.text))
        else:
            click.echo(f"[{part.mime}, {len(part.data):,} bytes]")


def _check(
    name: str, ask: Callable[[tuple[str, ...]], McpTools], config: Config
) -> dict[str, object]:
    """The state and the detail of one server."""
    began = time.monotonic()
    try:
        found = ask((name,))
    except SwarmError as error:
        return {"state": "fail", "detail": str(error)}
    if found.failures:
        return {"state": "fail", "detail": found.failures[0].reason}
    seconds = time.monotonic() - began
    kept = sum(len(one.parameters) + len(one.description.encode()) for one in found.tools)
    detail = f"{len(found.tools)} tools, {kept / 1000:.1f} KB, ready in {seconds:.1f} s"
    table = config.mcp_servers[name]
    if table.url is None and table.sandbox == "none":
        return {"state": "warn", "detail": f'{detail}; it runs without a sandbox (sandbox="none")'}
    return {"state": "ok", "detail": detail}


def _read_log(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_LOG_BYTES).decode("utf-8", "replace")
