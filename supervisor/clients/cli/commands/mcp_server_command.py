"""`swarm mcp-server`: runs as tools of an MCP server, over stdio or HTTP."""

import os
import secrets
from collections.abc import Callable

import click
import msgspec

from swarm.mailbox.base.key_wiping import take_keys
from swarm.mailbox.protocol.values.limits import Budget
from swarm.roles.rights.permission_profiles import chosen_profile

from ....runs.paths import find_user_paths
from ...mcp_server.http_address import check_token, parse_address
from ...mcp_server.run_ceiling import RunCeiling
from ...mcp_server.served_runs import ServedRuns, ServerOptions
from ..base.lazy_commands import ColorCommand
from ..run_setup.click_values import OptionValue
from ..run_setup.options import RunOptions, agent_options, limit_options
from ..run_setup.run_settings import find_cwd, load_settings
from ..run_setup.task_file import Task
from .chat_command import typed_options

_TOKEN = "SWARM_MCP_TOKEN"
_OWN = ("cd", "add_dir", "http", "http_anywhere", "codex_tools", "max_runs")


@click.command("mcp-server", cls=ColorCommand)
@click.option("-C", "--cd", metavar="DIR", help="Where agents work; callers stay inside of it.")
@click.option("--add-dir", multiple=True, metavar="DIR", help="One more folder, also to write in.")
@click.option("--http", metavar="HOST:PORT", help="Serve HTTP there instead of stdio.")
@click.option("--http-anywhere", is_flag=True, help="HOST may be reached from other machines.")
@click.option("--codex-tools", is_flag=True, help="Also offer Codex's tools codex, codex-reply.")
@click.option(
    "--max-runs",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Runs of this server that are alive at once.",
)
@agent_options
@limit_options
@click.pass_context
def mcp_server(ctx: click.Context, /, **given: OptionValue) -> int:
    """Offer runs as tools to an MCP client, on stdin and stdout or over HTTP.

    A caller gets what these options allow, or less. With --http a token is needed: that of
    $SWARM_MCP_TOKEN, else a new one, printed on stderr. See docs/mcp-server.md.

    \b
    Examples:
      swarm mcp-server --sandbox read-only
      swarm mcp-server --http 127.0.0.1:8931 --budget-tokens 500000
    """
    from ...mcp_server.mcp_server_process import serve_http, serve_stdio  # 0.6 s of imports

    address = None
    if given["http"] is not None:
        address = parse_address(given["http"], anywhere=given["http_anywhere"])
    environment = dict(os.environ)
    token = take_keys(environment, (_TOKEN,)).get(_TOKEN)
    folder = str(find_cwd(given["cd"]).resolve())
    options = ServerOptions(
        folder=folder,
        roots=tuple(str(find_cwd(one).resolve()) for one in given["add_dir"]),
        words=tuple(word for word in typed_options(ctx) if not _is_own(word)),
        most_runs=given["max_runs"],
    )
    ceiling_of = ceiling_reader(given, environment)
    ceiling_of(folder)  # a broken configuration is an error now
    runs = ServedRuns(
        options, ceiling_of=ceiling_of, places=find_user_paths(environment), environment=environment
    )
    if address is None:
        serve_stdio(runs, with_codex=given["codex_tools"])
    if token is None:
        token = secrets.token_urlsafe(32)
        click.echo(f"swarm: token: {token}", err=True)
    return serve_http(runs, address, check_token(token), with_codex=given["codex_tools"])


def _is_own(word: str) -> bool:
    name = word.removeprefix("--").partition("=")[0].replace("-", "_")
    return name in _OWN


def ceiling_reader(
    given: dict[str, OptionValue], environment: dict[str, str]
) -> Callable[[str], RunCeiling]:
    """Reads what a run in a folder may have at most, by these options and the configuration."""
    known = {key: value for key, value in given.items() if key in RunOptions.__struct_fields__}

    def read(folder: str) -> RunCeiling:
        options = msgspec.convert({**known, "cd": folder}, RunOptions)
        settings = load_settings(options, Task(name="mcp-server", body=""), environment)
        config, table = settings.config, settings.config.budget
        return RunCeiling(
            sandbox=config.sandbox_mode,
            approval=config.approval,
            budget=Budget(tokens=table.tokens, usd=table.usd, requests=table.requests),
            profile=chosen_profile(settings.loaded.layers) or "",
        )

    return read
