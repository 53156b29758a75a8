"""`swarm login [PROVIDER]`, `swarm logout PROVIDER`: keys and sign-ins that are kept for all runs.

A key comes from stdin or a hidden prompt, never from an argument: others see those.
"""

import os
import sys
from difflib import get_close_matches

import click
import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.parts.accounts.account_messages import LoginTable
from swarm.mailbox.parts.accounts.job.login_job import LoginJob
from swarm.roles.config.part_keys import PartKeys
from swarm.roles.config.schema import Config
from swarm.roles.parts.accounts.login_settings import check_logins, is_account_name
from swarm.roles.parts.accounts.stored_account import AccountStore

from ....base.safe_text import clean_line
from ....clients.cli.base.lazy_commands import ColorCommand
from ....clients.cli.base.printing import print_columns, print_json
from ....clients.cli.run_setup.run_settings import load_config_here
from ..account_list import list_accounts
from ..account_providers import BUILT_IN, account_source, accounts_folder
from ..login_start import run_login_process

_MOST_KEY_CHARS = 64 << 10


@click.command("login", cls=ColorCommand)
@click.argument("name", required=False, metavar="[PROVIDER[@ACCOUNT]|LOGIN]")
@click.option("--with-api-key", is_flag=True, help="Read the key from stdin, or ask for it hidden.")
@click.option("--device", is_flag=True, help="Sign in with a code that you enter elsewhere.")
@click.option("--status", is_flag=True, help="List what is stored, or one account; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --status: one JSON list.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=900.0,
    show_default=True,
    help="Seconds to wait for the person.",
)
def login(
    name: str | None,
    *,
    with_api_key: bool,
    device: bool,
    status: bool,
    as_json: bool,
    no_browser: bool,
    timeout: float,
) -> None:
    """Store the key of a provider, or sign in to an account; later runs use it.

    PROVIDER@ACCOUNT is a further account of a provider. LOGIN is a table [login.LOGIN] of the
    configuration. A key that an environment variable holds comes before a stored one.

    \b
    Examples:
      swarm login openai --with-api-key < key.txt
      swarm login openai@work
      swarm login --status
    """
    config = load_config_here().config
    if status or name is None:
        _print_status(config, name, as_json=as_json)
        return
    target = _find_target(name, config)
    if with_api_key and device:
        raise UsageError("--with-api-key and --device are two different ways; name one")
    is_key = with_api_key or (target.table is None and not device)
    if not is_key and target.table is None:
        raise UsageError(
            f"there is no table [login.{name}] in the configuration, so there is nothing to sign "
            f"in to; a key is stored with `swarm login {name} --with-api-key` (docs/providers.md)"
        )
    source = account_source(target.account, config, {} if is_key else check_logins(config.login))
    job = LoginJob(
        verb="key" if is_key else "device" if device else "browser",
        source=source,
        base_url=target.base_url,
        key=_read_key(target.account) if is_key else "",
        keep=config.mcp_oauth_credentials_store,
        opens_browser=not no_browser,
        timeout_s=timeout,
        paste_from=-1 if is_key or device else os.dup(0),
    )
    done = run_login_process(job)
    if done.failure:
        raise SwarmError(
            f"not logged in to {target.account}: {clean_line(done.failure, limit=600)}"
        )
    click.echo(f"Logged in to {target.account}: {clean_line(done.status, limit=400)}.")


@click.command("logout", cls=ColorCommand)
@click.argument("name", metavar="PROVIDER[@ACCOUNT]|LOGIN")
def logout(name: str) -> None:
    """Forget a stored key or login, and have it revoked.

    \b
    Example:
      swarm logout openai
    """
    config = load_config_here().config
    stored = AccountStore(accounts_folder()).secrets.names()
    account = name if name in stored else _find_target(name, config).account
    if account not in stored:
        click.echo(f"No login of {account} is stored.")
        return
    source = account_source(account, config, check_logins(config.login))
    done = run_login_process(LoginJob(verb="logout", source=source))
    if account in AccountStore(accounts_folder()).secrets.names():
        raise SwarmError(f"not logged out of {account}: {clean_line(done.failure, limit=400)}")
    click.echo(f"Logged out of {account}.")
    if done.failure:
        why = clean_line(done.failure, limit=300)
        click.echo(f"swarm: warning: its tokens were not revoked: {why}", err=True)


class _Target(msgspec.Struct, frozen=True):
    """`base_url`: of a configured provider; "": of a built-in one."""

    account: str
    base_url: str
    table: LoginTable | None = None


def _find_target(name: str, config: Config) -> _Target:
    """What the person named: an account, or a table of the configuration. Raises UsageError."""
    tables = check_logins(config.login)
    base, _, alias = name.partition("@")
    if not alias and base in tables and base not in (*BUILT_IN, *config.model_providers):
        base, alias = tables[base].provider, base
    known = (*BUILT_IN, *config.model_providers)
    if base not in known:
        near = get_close_matches(base, (*known, *tables), n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise UsageError(f"no provider and no [login] table is called {base!r}{hint}")
    account = f"{base}@{alias}" if alias else base
    if not is_account_name(account):
        raise UsageError(f"{account[:80]!r}: an account's name has letters, digits, `_`, `-`, `.`")
    table = tables.get(alias)
    if table is not None and table.provider != base:
        raise UsageError(f"[login.{alias}] is for the provider {table.provider}, not for {base}")
    configured = config.model_providers.get(base)
    own = config.openai_base_url if base == "openai" else ""
    base_url = configured.base_url if configured is not None else own or ""
    return _Target(account, (table.base_url if table is not None else "") or base_url, table)


def _read_key(account: str) -> str:
    """From a pipe or a file on stdin, or by a hidden prompt. Raises UsageError."""
    if sys.stdin.isatty():
        key = click.prompt(f"API key of {account}", hide_input=True, err=True, default="")
    else:
        key = sys.stdin.buffer.read(_MOST_KEY_CHARS + 1).decode("utf-8", "replace")
    if len(key) > _MOST_KEY_CHARS or not key.strip() or len(key.split()) != 1:
        raise UsageError("the key must be one line on stdin, for example: swarm login … < key.txt")
    return str(key).strip()


def _print_status(config: PartKeys, name: str | None, *, as_json: bool) -> None:
    lines = list_accounts(config)
    if name is not None:
        lines = [one for one in lines if name in {one.account, one.account.partition("@")[2]}]
    if as_json:
        print_json(lines)
    elif lines:
        print_columns(("ACCOUNT", "STATE"), [(one.account, one.state) for one in lines])
    else:
        click.echo("Not logged in." if name is None else f"Not logged in to {name}.")
        if name is None:
            click.echo("`swarm login openai` stores a key; docs/providers.md says more.", err=True)
    if name is not None and not any(one.usable for one in lines):
        raise click.exceptions.Exit(1)
