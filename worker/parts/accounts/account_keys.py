"""The key of an account, as the gateway sends it; refreshed once for all runs.

Runs that share an account refresh it one after the other, under a lock that ends with its process:
the second finds what the first has got. A rotated token is read again before anything is sent. A
refresh that has begun is finished even if the run ends, else its new token would be lost.
"""

import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.parts.accounts.account_messages import AccountSource
from swarm.roles.parts.accounts.login_settings import origin_of
from swarm.roles.parts.accounts.stored_account import AccountStore, StoredAccount

from .token_requests import (
    REQUEST_S,
    LoginFailed,
    find_endpoints,
    post_fields,
    read_tokens,
    with_tokens,
)

_LOCK_LIMIT_S, _LOCK_PAUSE_S = 90.0, 0.05
_SHIELD_S = 3 * REQUEST_S
_PAUSE_S = 10.0  # until a refresh that failed is tried again, while the token still counts


class AccountUnusable(SwarmError):
    """The account has no key that can be sent. The text says what to type."""


class AccountKey(NamedTuple):
    """`lasts_s`: for how long it need not be asked for again; None: until it is refused."""

    key: str
    lasts_s: float | None
    account_id: str
    warning: str = ""


async def fetch_account_key(source: AccountSource, base_url: str, refused: str = "") -> AccountKey:
    """The account's key.

    Args:
        base_url: Where it will be sent.
        refused: The key that the server has just refused; "": none.

    Raises:
        AccountUnusable: There is none, it has expired for good, or it is not for this address.
    """
    store = AccountStore(Path(source.folder))
    account = await _read(store, source)
    if why := misfit(source, account, base_url):
        raise AccountUnusable(why)
    if account.kind == "key":
        return AccountKey(account.key, None, "")
    if account.ended or _must_refresh(account, source, refused):
        account = await _refresh(store, source, account, refused)
    due = account.due_at(_max_age(source))
    lasts_s = max(_PAUSE_S, due - time.time()) if due else None
    warning = _unkept_text(source) if (source.folder, source.name) in _unkept else ""
    return AccountKey(account.access_token, lasts_s, account.account_id, warning)


def misfit(source: AccountSource, account: StoredAccount, base_url: str) -> str:
    """Why the account's key is not sent there by this configuration; "": it may be."""
    name, again = source.name, f"type `{source.command}`"
    if source.methods not in {"any", account.kind}:
        wanted = "a sign-in" if source.methods == "login" else "an API key"
        return f"forced_login_method allows only {wanted}, and the account {name} has none: {again}"
    table = source.login
    named = ("", "") if table is None else (table.issuer, table.client_id)
    if account.kind == "login" and named != (account.issuer, account.client_id):
        return (
            f"the account {name} was signed in with an issuer and a client that the configuration "
            f"does not name (any more): restore its [login] table, or {again}"
        )
    if account.origin != origin_of(base_url):
        return (
            f"the account {name} was stored for {account.origin}, and this provider is at "
            f"{origin_of(base_url)}: its key is not sent there; if that is right, {again}"
        )
    if account.kind == "key" or table is None:
        return ""
    for allowed in (table.workspaces, source.workspaces):
        if allowed and account.account_id not in allowed:
            spaces = ", ".join(allowed)
            return f"the account {name} is not in an allowed workspace ({spaces}): {again}"
    return ""


def _max_age(source: AccountSource) -> float:
    return 0.0 if source.login is None else float(source.login.max_age_s)


def _must_refresh(account: StoredAccount, source: AccountSource, refused: str) -> bool:
    due = account.due_at(_max_age(source))
    is_old = bool(due) and time.time() > due
    return is_old or (bool(refused) and account.access_token == refused)


class _Unkept(NamedTuple):
    """What a refresh got and its store would not take, and what it was got with."""

    account: StoredAccount
    used_token: str


_unkept: dict[tuple[str, str], _Unkept] = {}  # of this process, by folder and name


async def _read(store: AccountStore, source: AccountSource) -> StoredAccount:
    unkept = _unkept.get((source.folder, source.name))
    try:
        account = await trio.to_thread.run_sync(store.read, source.name)
    except SwarmError as error:
        if unkept is not None:
            return unkept.account
        raise AccountUnusable(str(error)) from error
    if unkept is not None and account is not None:
        if account.refresh_token == unkept.used_token:  # nobody has signed in since
            await _keep(store, source, unkept)
            return unkept.account
        del _unkept[source.folder, source.name]
    if account is None:
        raise AccountUnusable(f"the account {source.name} is gone: type `{source.command}`")
    return account


@asynccontextmanager
async def locked_account(store: AccountStore, name: str) -> AsyncIterator[None]:
    """Hold the account alone within the block. The lock ends with the process.

    Raises AccountUnusable if others hold it for too long.
    """
    with ExitStack() as stack:
        with trio.move_on_after(_LOCK_LIMIT_S) as waiting:
            while not stack.enter_context(store.secrets.try_locked(name)):
                stack.close()
                await trio.sleep(_LOCK_PAUSE_S)
        if waiting.cancelled_caught:
            raise AccountUnusable(f"another run holds the account {name}; try again")
        yield


async def _refresh(
    store: AccountStore, source: AccountSource, used: StoredAccount, refused: str
) -> StoredAccount:
    """The account with a token that may be used now. Raises AccountUnusable."""
    async with locked_account(store, source.name):
        account = await _read(store, source)  # another process may have been first
        if account.ended:
            raise AccountUnusable(_ended(source, account.ended))
        is_other = account.access_token != used.access_token
        if is_other and not _must_refresh(account, source, refused):
            return account
        await _check_kept(store, source, account)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _SHIELD_S):
            return await _ask(store, source, account, refused)
    raise AccountUnusable(f"the login of the account {source.name} was not refreshed in time")


async def _check_kept(store: AccountStore, source: AccountSource, account: StoredAccount) -> None:
    """Raises AccountUnusable if what the issuer would give cannot be kept: nothing is asked then,
    since it counts the old token as used.
    """
    if (source.folder, source.name) in _unkept:
        return
    try:
        await trio.to_thread.run_sync(store.write, account)
    except SwarmError as error:
        text = f"the login of the account {source.name} is not refreshed, since {error}"
        raise AccountUnusable(text) from error


async def _keep(store: AccountStore, source: AccountSource, got: _Unkept) -> None:
    """Store it; what cannot be stored is held by this process."""
    place = (source.folder, source.name)
    try:
        await trio.to_thread.run_sync(store.write, got.account)
    except SwarmError:
        _unkept[place] = got
    else:
        _unkept.pop(place, None)


def _unkept_text(source: AccountSource) -> str:
    return (
        f"the refreshed login of the account {source.name} cannot be kept where it was kept "
        f"before: this run goes on with it; for later runs, type `{source.command}`"
    )


async def _ask(
    store: AccountStore, source: AccountSource, account: StoredAccount, refused: str
) -> StoredAccount:
    """Ask the issuer, and keep what it says before anybody uses it."""
    table = source.login
    assert table is not None
    try:
        if not account.refresh_token:
            raise LoginFailed("its issuer gave no token to refresh it with", is_final=True)
        endpoint = account.token_endpoint or (await find_endpoints(table)).token_endpoint
        fields = {
            "grant_type": "refresh_token",
            "refresh_token": account.refresh_token,
            "client_id": table.client_id,
        }
        answer = await post_fields(endpoint, fields, body=table.refresh_body)
        fresh = with_tokens(account, read_tokens(answer), table)
    except LoginFailed as error:
        if time.time() < account.expiry(_max_age(source)) and account.access_token != refused:
            return account  # it counts for a moment yet
        if error.is_final:
            ended = msgspec.structs.replace(account, ended=str(error))
            await trio.to_thread.run_sync(store.write, ended)
            raise AccountUnusable(_ended(source, str(error))) from error
        raise AccountUnusable(
            f"the login of the account {source.name} cannot be refreshed now: {error}"
        ) from error
    used = _unkept.get((source.folder, source.name), _Unkept(account, account.refresh_token))
    await _keep(store, source, _Unkept(fresh, used.used_token))
    if why := misfit(source, fresh, account.origin):
        raise AccountUnusable(why)
    return fresh


def _ended(source: AccountSource, reason: str) -> str:
    return (
        f"the login of the account {source.name} has expired ({reason}): type `{source.command}` "
        "to sign in again"
    )
