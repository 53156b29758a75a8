"""The process of `swarm login` and `logout`, started as `python -P -m …login_process`.

A `LoginJob`, which may hold a key, comes as MessagePack through stdin; a `LoginResult` goes to
stdout. What the person reads meanwhile goes to stderr.
"""

import sys
from pathlib import Path
from typing import cast

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.parts.accounts.account_messages import AccountSource
from swarm.mailbox.parts.accounts.job.login_job import LoginJob, LoginResult
from swarm.roles.base.private_address import is_private_address
from swarm.roles.parts.accounts.login_settings import origin_of
from swarm.roles.parts.accounts.stored_account import (
    AccountStore,
    StoredAccount,
    describe_account,
)

from ....gateway.providers import built_in_providers, is_header
from ..account_keys import locked_account, misfit
from ..token_requests import LoginFailed, find_endpoints, post_fields, with_tokens
from .sign_in import sign_in_by_browser, sign_in_by_device

_REVOKE_S = 10.0
_MOST_KEY_CHARS = 16 << 10


async def log_in(job: LoginJob) -> LoginResult:
    """Sign in or take the key, and store it. Raises SwarmError, trio.TooSlowError."""
    base_url = _base_url(job)
    if job.verb == "key":
        account = _with_key(job, base_url)
    else:
        with trio.fail_after(job.timeout_s):
            account = await _sign_in(job, base_url)
    if why := misfit(job.source, account, base_url):
        raise LoginFailed(f"nothing is stored: {why}")
    store = AccountStore(Path(job.source.folder))
    async with locked_account(store, account.name):  # no refresh of the one before comes after it
        kept = await trio.to_thread.run_sync(store.write, account, job.keep)
    return LoginResult(status=describe_account(account, kept))


def _with_key(job: LoginJob, base_url: str) -> StoredAccount:
    key = job.key.strip()
    if not key or len(key) > _MOST_KEY_CHARS:
        raise LoginFailed("that is not a key: it must be one line that is not empty")
    if not is_header("authorization", key):
        raise LoginFailed("the key has characters that no header may hold: copy it again")
    return StoredAccount(name=job.source.name, kind="key", origin=origin_of(base_url), key=key)


async def _sign_in(job: LoginJob, base_url: str) -> StoredAccount:
    table = job.source.login
    assert table is not None
    if job.verb == "device":
        tokens = await sign_in_by_device(table)
    else:
        tokens = await sign_in_by_browser(job, table)
    endpoints = await find_endpoints(table)
    account = StoredAccount(
        name=job.source.name,
        kind="login",
        origin=origin_of(base_url),
        issuer=table.issuer,
        client_id=table.client_id,
        token_endpoint=endpoints.token_endpoint,
        revocation_endpoint=endpoints.revocation_endpoint,
    )
    return with_tokens(account, tokens, table)


def _base_url(job: LoginJob) -> str:
    """Where the account's key will be sent. Raises LoginFailed."""
    built_in = {provider.id: provider.base_url for provider in built_in_providers()}
    base_url = job.base_url or built_in.get(job.source.provider, "")
    if not is_private_address(base_url):
        raise LoginFailed(
            f"the provider {job.source.provider} is at {base_url!r}, where others could read a key "
            "on its way: only https, or this machine, gets one from an account"
        )
    return base_url


async def log_out(job: LoginJob) -> LoginResult:
    """Forget the account in any case, and have its tokens revoked. Raises SwarmError, OSError."""
    store = AccountStore(Path(job.source.folder))
    failure = ""
    try:
        account = await trio.to_thread.run_sync(store.read, job.source.name)
    except SwarmError as error:
        account, failure = None, str(error)
    if account is not None and account.kind == "login":
        failure = await _revoke(job.source, account)
    async with locked_account(store, job.source.name):
        await trio.to_thread.run_sync(store.secrets.remove, job.source.name)
    return LoginResult(status="logged out", failure=failure)


async def _revoke(source: AccountSource, account: StoredAccount) -> str:
    """Tell the issuer (RFC 7009); why that did not work, or ""."""
    address = account.revocation_endpoint
    if not address:
        return "its issuer has no address for that"
    token, hint = account.refresh_token, "refresh_token"
    if not token:
        token, hint = account.access_token, "access_token"
    body = "form" if source.login is None else source.login.refresh_body
    fields = {"token": token, "token_type_hint": hint, "client_id": account.client_id}
    try:
        with trio.fail_after(_REVOKE_S):
            answer = await post_fields(address, fields, body=body)
    except LoginFailed as error:
        return str(error)
    except trio.TooSlowError:
        return f"no answer within {_REVOKE_S:g} s"
    return "" if answer.status == 200 else f"HTTP {answer.status}"


async def _do(job: LoginJob) -> LoginResult:
    try:
        return await (log_out(job) if job.verb == "logout" else log_in(job))
    except trio.TooSlowError:
        return LoginResult(failure=f"nobody answered within {job.timeout_s:g} s (--timeout)")
    except (SwarmError, OSError, BaseExceptionGroup) as error:
        return LoginResult(failure=Redactor([job.key]).redact_error(_why(error)))


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = (group.subgroup(SwarmError) or group).exceptions[0]
    return str(error) if isinstance(error, SwarmError) else f"{type(error).__name__}: {error}"


def main() -> int:
    """The exit code is 0 whenever there is a result."""
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=LoginJob)
    sys.stdout.buffer.write(msgspec.msgpack.encode(trio.run(_do, job)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
