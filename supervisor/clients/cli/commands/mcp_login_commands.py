"""`swarm mcp login|logout`: OAuth with a server over HTTP."""

import os
import re

import click

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.protocol.hub import LoginOrder
from swarm.roles.config.login_store import LoginStore, describe_login
from swarm.roles.config.mcp_table import McpServerTable

from ....base.safe_text import clean_line
from ....runs.paths import find_user_paths
from ..base.lazy_commands import ColorCommand
from ..run_setup.mcp_settings import unknown_server
from ..run_setup.run_settings import load_config_here

_SCOPE_SIGN = re.compile(r"[,\s]+")


@click.command("login", cls=ColorCommand)
@click.argument("name")
@click.option("--scopes", default="", metavar="SCOPE,…", help="Rights to ask for.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=300.0,
    show_default=True,
    help="Seconds to wait for the answer.",
)
def login_server(name: str, *, scopes: str, no_browser: bool, timeout: float) -> None:
    """Log in to a server over HTTP (OAuth); the login counts for all runs until `logout`.

    \b
    Examples:
      swarm mcp login api
      swarm mcp login api --scopes read,write
      swarm mcp login api --no-browser
    """
    from ..base.mcp_process import log_in_to_server

    loaded = load_config_here()
    _check_login(name, loaded.config.mcp_servers)
    order = LoginOrder(
        scopes=tuple(one for one in _SCOPE_SIGN.split(scopes) if one),
        callback_port=loaded.config.mcp_oauth_callback_port or 0,
        browser=not no_browser,
        timeout_s=timeout,
        paste_from=os.dup(0),
        keep=loaded.config.mcp_oauth_credentials_store,
    )
    try:
        done = log_in_to_server(name, order)
    finally:
        os.close(order.paste_from)
    if done.failure:
        raise SwarmError(f"not logged in to '{name}': {clean_line(done.failure, limit=600)}")
    granted = f"; scopes: {clean_line(' '.join(done.scopes), limit=400)}" if done.scopes else ""
    click.echo(f"Successfully logged in to MCP server '{name}' ({done.status}{granted}).")


@click.command("logout", cls=ColorCommand)
@click.argument("name")
def logout_server(name: str) -> None:
    """Forget the login with a server, and have its tokens revoked.

    \b
    Example:
      swarm mcp logout api
    """
    from ..base.mcp_process import log_out_of_server

    loaded = load_config_here()
    table = _check_login(name, loaded.config.mcp_servers)
    store = LoginStore(find_user_paths(dict(os.environ)).logins)
    if table.url is None or store.read(name, table.url) is None:
        click.echo(f"No login with MCP server '{name}' is stored.")
        return
    done = log_out_of_server(name)
    click.echo(f"Removed the login with MCP server '{name}'.")
    if done.failure:
        why = clean_line(done.failure, limit=300)
        click.echo(f"swarm: warning: its tokens were not revoked: {why}", err=True)


def _check_login(name: str, servers: dict[str, McpServerTable]) -> McpServerTable:
    """The table of a server that a login is possible with. Raises UsageError."""
    if name not in servers:
        raise UsageError(unknown_server(name, servers))
    table = servers[name]
    if table.url is None:
        raise UsageError(f"OAuth login is only for servers over HTTP; '{name}' runs a command")
    if (used := fixed_token(table)) is not None:
        raise UsageError(f"'{name}' uses {used}; a login would have no effect")
    return table


def fixed_token(table: McpServerTable) -> str | None:
    """What of the table stands in the place of a login; None: nothing."""
    if table.bearer_token_env_var:
        return f"the token of the variable {table.bearer_token_env_var}"
    if table.oauth_grant == "client_credentials":
        return "a client of its own (oauth_client_id)"
    names = {one.lower() for one in (*table.http_headers, *table.env_http_headers)}
    return "an Authorization header of its own" if "authorization" in names else None


def auth_words(name: str, table: McpServerTable) -> str:
    """For lists: how the server knows the person."""
    if table.url is None:
        return "-"
    if table.oauth_grant == "client_credentials":
        return "client credentials"
    if fixed_token(table) is not None:
        return "bearer token"
    store = LoginStore(find_user_paths(dict(os.environ)).logins)
    return describe_login(store.read(name, table.url))


def auth_status(name: str, table: McpServerTable) -> str:
    """As Codex writes it in JSON: unsupported, not_logged_in, bearer_token or o_auth."""
    if table.url is None:
        return "unsupported"
    words = auth_words(name, table)
    kinds = {"bearer token": "bearer_token", "not logged in": "not_logged_in"}
    return kinds.get(words, "not_logged_in" if words == "login expired" else "o_auth")
