"""`swarm mcp login` and `logout` in the hub's code: one login with one server, in one file."""

import os
import re
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import trio
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import ValidationError

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.held_programs import Lookup, find_writable_places, held_process_environment
from swarm.mailbox.protocol.hub import LoginDone, LoginOrder
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.values.limits import WorkspaceWrite
from swarm.roles.config.login_store import LoginStore, StoredLogin, describe_login

from .login_callback import LoginCallback, open_callback
from .login_provider import LoginMemory, PersonsLogin
from .server_session import ServerFailed, SessionContext, open_http_session
from .token_refresh import revoke_login
from .tool_schema import clean_text

_HTTP_STATUS = re.compile(r"\b[1-5][0-9][0-9]\b")


async def log_in(context: SessionContext, server: McpServer, order: LoginOrder) -> LoginDone:
    """Log in and keep what was given. Every failure is a text in the reply."""
    store = LoginStore(Path(context.spec.logins))
    try:
        with trio.fail_after(order.timeout_s):
            login = await _log_in(context, server, order, store.read(server.name, server.url))
        await trio.to_thread.run_sync(store.write, login, order.keep)
    except trio.TooSlowError:
        return LoginDone(failure=f"nobody answered within {order.timeout_s:g} s (--timeout)")
    except (Exception, BaseExceptionGroup) as error:
        return LoginDone(failure=_why(error))
    return LoginDone(status=describe_login(login), scopes=login.scopes)


async def log_out(context: SessionContext, server: McpServer) -> LoginDone:
    """Have the tokens revoked, and forget them in any case."""
    store = LoginStore(Path(context.spec.logins))
    login = store.read(server.name, server.url)
    if login is None:
        return LoginDone(status=describe_login(None))
    failure = await revoke_login(login)
    store.remove(server.name, server.url)
    return LoginDone(status="logged out", failure=clean_text(failure, limit=300))


async def _log_in(
    context: SessionContext, server: McpServer, order: LoginOrder, before: StoredLogin | None
) -> StoredLogin:
    known = _known_client(context, server, before)
    ports = (order.callback_port,) if order.callback_port else (*_last_port(known), 0)
    async with open_callback(ports, order.paste_from) as callback:
        if not server.oauth_client_id and not _fits(known, callback):
            known = None  # registered for another address: register again
        memory = LoginMemory(client=known)
        scopes = order.scopes or server.scopes
        if before is not None and not order.scopes and before.missing_scopes:
            scopes = tuple(dict.fromkeys((*before.scopes, *before.missing_scopes)))
        for is_forced in (False, True):
            show = PersonsScreen(server.name, open_browser=order.browser)
            login = PersonsLogin(
                server, memory, callback, show.authorization, scopes=scopes, is_forced=is_forced
            )
            found = await _connect(context, server, login)
            if found is not None:
                return found
    raise ServerFailed("the server asks for no login")


async def _connect(
    context: SessionContext, server: McpServer, login: PersonsLogin
) -> StoredLogin | None:
    """Use the server until it has asked for the login, and list its tools."""
    try:
        async with open_http_session(context, server, login):
            return login.result()
    except (Exception, BaseExceptionGroup):
        if (found := login.result()) is not None:
            return found  # the login itself is done; the next use says what else is wrong
        raise


class PersonsScreen:
    """Shows the address to the person, and opens it in a browser if there is one."""

    def __init__(self, server: str, *, open_browser: bool) -> None:
        self._server, self._open_browser = server, open_browser

    async def authorization(self, url: str) -> None:
        """Show an authorization server's address. It is bounded and has no control characters."""
        text = clean_text(url, limit=8_000)
        if self._open_browser and _has_browser(os.environ):
            sys.stderr.write(f"Opening the browser to log in to `{self._server}`:\n\n  {text}\n\n")
            sys.stderr.flush()
            await trio.to_thread.run_sync(_open_browser, url, abandon_on_cancel=True)
        else:
            sys.stderr.write(f"Open this address to log in to `{self._server}`:\n\n  {text}\n\n")
        sys.stderr.write(
            "If the browser runs on another machine, paste the address here at which it ends "
            "(http://127.0.0.1:…).\n"
        )
        sys.stderr.flush()


def _open_browser(url: str) -> None:
    """The first browser on PATH is started: in no folder that agents of this folder write."""
    here = str(Path.cwd())
    places = find_writable_places(WorkspaceWrite(), here)
    with held_process_environment(Lookup(os.environ.get("PATH", ""), here, places)):
        webbrowser.open(url)


def _has_browser(environment: Mapping[str, str]) -> bool:
    """A browser of this person's own screen; none in the terminal, and none on a far machine."""
    if "BROWSER" in environment:
        return True
    is_far = "SSH_CONNECTION" in environment
    return not is_far and any(name in environment for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _known_client(
    context: SessionContext, server: McpServer, before: StoredLogin | None
) -> OAuthClientInformationFull | None:
    """The client that is registered already: by the server's table, or by the login before."""
    if server.oauth_client_id and not server.oauth_client_id.startswith("https://"):
        secret = context.credentials.get(server.oauth_client_secret)
        if server.oauth_client_secret and secret is None:
            raise ServerFailed(f"the variable {server.oauth_client_secret} is not set")
        return OAuthClientInformationFull(client_id=server.oauth_client_id, client_secret=secret)
    if before is None or not before.registration or server.oauth_client_id:
        return None
    try:
        return OAuthClientInformationFull.model_validate_json(before.registration)
    except ValidationError:
        return None


def _last_port(client: OAuthClientInformationFull | None) -> tuple[int, ...]:
    """The port that the client was registered with."""
    for one in () if client is None else client.redirect_uris or ():
        if one.host == "127.0.0.1" and one.port:
            return (one.port,)
    return ()


def _fits(client: OAuthClientInformationFull | None, callback: LoginCallback) -> bool:
    return client is not None and callback.redirect_uri in map(str, client.redirect_uris or ())


def _why(error: BaseException) -> str:
    """A failure in words. What an authorization server wrote is left out: it may repeat secrets."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        reported = group.subgroup((SwarmError, OAuthFlowError))
        error = (reported or group).exceptions[0]
    if isinstance(error, OAuthTokenError | OAuthRegistrationError):
        what = "token" if isinstance(error, OAuthTokenError) else "registration of a client"
        status = _HTTP_STATUS.search(str(error))
        told = f"HTTP {status[0]}" if status else "an answer that cannot be used"
        return f"the authorization server refused the {what} ({told})"
    if isinstance(error, SwarmError | OAuthFlowError):
        return clean_text(str(error), limit=500)
    return clean_text(f"{type(error).__name__}: {error}", limit=500)
