"""Puts the stored login's token on requests to its server, and keeps it fresh.

Nobody is asked for anything here: where a login is missing or of no use any more, `fault` says so,
with the command that helps, and the server's refusal takes its course. Runs that share a login
refresh it one after the other: the second finds what the first has got.
"""

import re
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from typing import NamedTuple

import httpx2
import msgspec
import trio
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

from swarm.roles.config.login_store import LoginStore, StoredLogin, login_command

from .token_login import TokenLogin
from .token_refresh import RefreshFailed, refresh_login

_LOCK_LIMIT_S, _LOCK_PAUSE_S = 45.0, 0.05
_MAX_SCOPES, _MAX_SCOPE_CHARS = 50, 200
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+\Z")  # RFC 6749, 3.3


class _Held(NamedTuple):
    login: StoredLogin | None
    fault: str


class StoredLoginAuth(TokenLogin):
    """The login with one server, read for each request: it may be made while the run goes on."""

    def __init__(self, store: LoginStore, server: str, url: str) -> None:
        super().__init__()
        self._store, self._server, self._url = store, server, url

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        login = await self._read()
        fault = ""
        if login is not None and login.is_expired(time.time()):
            login, fault = await self._refresh(login)
        response = yield self._with_token(request, login)
        if response.status_code == 401 and login is not None:
            login, fault = await self._refresh(login)
            if login is not None:
                response = yield self._with_token(request, login)
        if response.status_code == 401:
            self.fault = fault or self._needs("it needs a login")
        elif response.status_code == 403 and _lacks_scope(response):
            self.fault = self._note_missing_scopes(response)
        elif response.status_code < 400:
            self.fault = ""

    def _with_token(self, request: httpx2.Request, login: StoredLogin | None) -> httpx2.Request:
        if login is not None:
            self.redactor.add_secrets(*login.secrets())
            request.headers["Authorization"] = f"Bearer {login.access_token}"
        return request

    async def _refresh(self, used: StoredLogin) -> _Held:
        """The login with another token than `used` has; without one, why."""
        with ExitStack() as stack, trio.move_on_after(_LOCK_LIMIT_S):
            while not stack.enter_context(self._store.try_locked(self._server, self._url)):
                stack.close()
                await trio.sleep(_LOCK_PAUSE_S)
            login = await self._read()
            if login is None:
                return _Held(None, self._needs("it needs a login"))
            if login.access_token != used.access_token:
                return _Held(login, "")  # another process was first
            fresh = await refresh_login(login)
            if isinstance(fresh, StoredLogin):
                await trio.to_thread.run_sync(self._store.write, fresh)
                return _Held(fresh, "")
            return _Held(None, self._refusal(fresh))
        return _Held(None, "another run holds its login; try again")

    async def _read(self) -> StoredLogin | None:
        """A keyring answers in its own time."""
        return await trio.to_thread.run_sync(self._store.read, self._server, self._url)

    def _refusal(self, failed: RefreshFailed) -> str:
        if failed.is_final:
            return self._needs(f"its login has expired ({failed.reason})")
        return f"its login has expired and cannot be refreshed now: {failed.reason}"

    def _needs(self, why: str) -> str:
        return f"{why}: run `{login_command(self._server)}`"

    def _note_missing_scopes(self, response: httpx2.Response) -> str:
        """Keep which rights are asked for, so that the next login asks for them too."""
        wanted = clean_scopes(extract_scope_from_www_auth(response) or "")
        with self._store.try_locked(self._server, self._url) as is_held:
            login = self._store.read(self._server, self._url) if is_held else None
            if login is not None:
                missing = tuple(one for one in wanted if one not in login.scopes)
                if missing != login.missing_scopes:
                    self._store.write(msgspec.structs.replace(login, missing_scopes=missing))
        named = f" ({', '.join(wanted)})" if wanted else ""
        return self._needs(f"it asks for more rights than its login has{named}")


def clean_scopes(text: str) -> tuple[str, ...]:
    """The scopes in a server's text, without what cannot be a scope. Bounded."""
    named = (one for one in text.split() if len(one) <= _MAX_SCOPE_CHARS and _SCOPE.match(one))
    return tuple(dict.fromkeys(named))[:_MAX_SCOPES]


def _lacks_scope(response: httpx2.Response) -> bool:
    return extract_field_from_www_auth(response, "error") == "insufficient_scope"
