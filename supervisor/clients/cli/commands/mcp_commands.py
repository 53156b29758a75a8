"""`swarm mcp`: the configured MCP servers; what changes and uses them is in files beside this."""

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.mcp_table import McpServerTable
from swarm.roles.config.schema import Config

from ....base.safe_text import clean_line
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..run_setup.mcp_settings import server_place
from ..run_setup.run_settings import load_config_here
from .mcp_content_commands import list_resources, read_resource, show_prompt, show_prompts
from .mcp_edit_commands import (
    add_server,
    disable_server,
    enable_server,
    remove_server,
    trust_server,
)
from .mcp_login_commands import auth_status, auth_words, login_server, logout_server
from .mcp_use_commands import call_tool, check_servers, list_tools, show_log

_JSON = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
_NONE = "No MCP servers configured yet. Try `swarm mcp add my-tool -- my-command`."


@click.group("mcp")
def mcp() -> None:
    """List, add and try MCP servers.

    \b
    Examples:
      swarm mcp add time -- mcp-server-time
      swarm mcp tools time
      swarm mcp call time get_current_time '{"timezone": "Asia/Tokyo"}'
    """


for _command in (
    *(add_server, remove_server, enable_server, disable_server, trust_server),
    *(list_tools, call_tool, show_log, check_servers),
    *(list_resources, read_resource, show_prompts, show_prompt),
    *(login_server, logout_server),
):
    mcp.add_command(_command)


@mcp.command("list", cls=ColorCommand)
@_JSON
def list_servers(*, as_json: bool) -> None:
    """Every configured server: name, target, sandbox, state, login, and where it is configured.

    \b
    Example:
      swarm mcp list
    """
    loaded = load_config_here(lenient=True)
    for warning in loaded.warnings:
        click.echo(f"swarm: warning: {warning}", err=True)
    servers = loaded.config.mcp_servers
    if as_json:
        print_json([_as_json(name, table) for name, table in servers.items()])
        return
    if not servers:
        click.echo(_NONE)
        return
    rows = [
        (
            name,
            table.url or " ".join((table.command or "", *table.args)),
            "-" if table.url else "NONE" if table.sandbox == "none" else "sandbox",
            "enabled" if table.enabled else "disabled",
            auth_words(name, table),
            server_place(name, loaded.layers),
        )
        for name, table in servers.items()
    ]
    print_columns(("NAME", "TARGET", "SANDBOX", "STATE", "AUTH", "FROM"), rows)


@mcp.command("get", cls=ColorCommand)
@click.argument("name")
@_JSON
def get_server(name: str, *, as_json: bool) -> None:
    """One server's settings; values of variables and headers are masked.

    \b
    Example:
      swarm mcp get time
    """
    loaded = load_config_here(lenient=True)
    shown = _as_json(name, _find(loaded.config, name))
    if as_json:
        print_json(shown)
        return
    click.echo(f"{name} ({clean_line(server_place(name, loaded.layers))})")
    for key, value in shown.items():
        click.echo(f"  {key}: {clean_line(msgspec.json.encode(value).decode(), limit=400)}")


def _find(config: Config, name: str) -> McpServerTable:
    if name not in config.mcp_servers:
        raise UsageError(f"No MCP server named '{name}' found.")
    return config.mcp_servers[name]


def _as_json(name: str, table: McpServerTable) -> dict[str, object]:
    """The server as Codex lists it; values of variables and headers are masked."""
    if table.url is None:
        transport: dict[str, object] = {
            "type": "stdio", "command": table.command, "args": table.args,
            "env": dict.fromkeys(table.env, "*****") or None,
            "env_vars": msgspec.to_builtins(table.env_vars), "cwd": table.cwd or None,
        }  # fmt: skip
    else:
        transport = {
            "type": "streamable_http", "url": table.url,
            "bearer_token_env_var": table.bearer_token_env_var,
            "http_headers": dict.fromkeys(table.http_headers, "*****") or None,
            "env_http_headers": table.env_http_headers or None,
            "scopes": table.scopes or None, "oauth_resource": table.oauth_resource or None,
        }  # fmt: skip
    return {
        "name": name, "enabled": table.enabled, "disabled_reason": None, "transport": transport,
        "startup_timeout_sec": table.startup_timeout_s, "tool_timeout_sec": table.tool_timeout_s,
        "auth_status": auth_status(name, table), "auth": auth_words(name, table),
        "enabled_tools": table.enabled_tools,
        "disabled_tools": table.disabled_tools, "sandbox": table.sandbox,
    }  # fmt: skip
