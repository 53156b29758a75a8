"""Stored accounts → providers of a run: `openai` has its key from one, `openai@work` is one more.

Only names of files are read here; what they hold is read by the gateway.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.parts.accounts.account_messages import AccountSource, LoginTable
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.roles.config.part_keys import PartKeys
from swarm.roles.config.secret_store import SecretStore
from swarm.roles.parts.accounts.login_settings import check_logins, is_account_name
from swarm.roles.parts.accounts.stored_account import ACCOUNTS_FOLDER

from ...runs.paths import find_user_paths

BUILT_IN = ("openai", "anthropic")  # built-in providers that have keys
_METHODS = {"chatgpt": "login", "api": "key", None: "any"}


def accounts_folder() -> Path:
    """The folder of this person's accounts."""
    return find_user_paths(dict(os.environ)).state / ACCOUNTS_FOLDER


def with_accounts(config: PartKeys, configured: Sequence[ProviderSpec]) -> tuple[ProviderSpec, ...]:
    """The configured providers, those with an account's key, and one for each further account.

    A provider whose table names another source of its key keeps that. Raises UsageError for a
    `[login]` table that cannot be used.
    """
    logins = check_logins(config.login)
    names = [one for one in SecretStore(accounts_folder()).names() if is_account_name(one)]
    found = {provider.id: provider for provider in configured}
    for name in names:
        if (made := _provider(name, config, logins, found)) is not None:
            found[name] = made
    return tuple(found.values())


def account_source(name: str, config: PartKeys, logins: dict[str, LoginTable]) -> AccountSource:
    """Where a gateway finds this account."""
    provider, _, alias = name.partition("@")
    table = logins.get(alias)
    given = config.forced_chatgpt_workspace_id
    return msgspec.convert(
        {
            "name": name,
            "provider": provider,
            "folder": str(accounts_folder()),
            "login": table if table is not None and table.provider == provider else None,
            "methods": _METHODS[config.forced_login_method],
            "workspaces": (given,) if isinstance(given, str) else given,
        },
        AccountSource,
    )


def _provider(
    name: str, config: PartKeys, logins: dict[str, LoginTable], known: dict[str, ProviderSpec]
) -> ProviderSpec | None:
    base, _, alias = name.partition("@")
    if base not in BUILT_IN and base not in known:
        return None  # its provider is not configured any more
    source = account_source(name, config, logins)
    key = f"account {name}"
    spec = known.get(base) or ProviderSpec(id=name, name=name)
    if base in known and spec.fetches_key and spec.account is None:
        if not alias:
            return None  # the table's own source of the key
        spec = msgspec.structs.replace(spec, key_command=None, key_file="")
    if alias or spec.env_key is None:
        spec = msgspec.structs.replace(spec, env_key=key)
    spec = msgspec.structs.replace(spec, id=name, account=source)
    table = source.login
    if table is None:
        return spec
    filled = dict(_account_headers(table, f"{key}.account_id"))
    plain = {header: value for header, value in table.headers.items() if header not in filled}
    return msgspec.structs.replace(
        spec,
        base_url=table.base_url or spec.base_url,
        http_headers=spec.http_headers | plain,
        env_http_headers=spec.env_http_headers | filled,
    )


def _account_headers(table: LoginTable, key: str) -> Iterator[tuple[str, str]]:
    """The headers that hold the account's id alone; their value comes with the token."""
    for header, value in table.headers.items():
        if value == "{account_id}":
            yield header, key
