"""Asks an authorization server for a new access token, and tells it that a login is over."""

import base64
import time
from typing import NamedTuple
from urllib.parse import quote

import httpx2
import msgspec
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from swarm.mailbox.base.errors import SwarmError
from swarm.roles.config.login_store import StoredLogin

from .guarded_http import GuardedTransport

_TIMEOUT_S = 20.0
_GONE = frozenset({400, 401, 403})  # the refresh token is of no use any more


class RefreshFailed(NamedTuple):
    """`is_final`: only a new login helps."""

    reason: str
    is_final: bool


def open_login_client(url: str) -> httpx2.AsyncClient:
    """A client for what belongs to the login with the server at `url`; the caller closes it."""
    return httpx2.AsyncClient(
        transport=GuardedTransport(url), timeout=_TIMEOUT_S, trust_env=False, follow_redirects=False
    )


async def refresh_login(login: StoredLogin) -> StoredLogin | RefreshFailed:
    """The login with a new access token. Never raises for what a server does."""
    if not login.refresh_token:
        return RefreshFailed("the server gave no refresh token", is_final=True)
    data = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    if login.resource:
        data["resource"] = login.resource
    try:
        response = await _post(login, login.token_endpoint, data)
        if response.status_code != 200:
            status = f"the authorization server answered with HTTP {response.status_code}"
            return RefreshFailed(status, is_final=response.status_code in _GONE)
        token = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        return RefreshFailed("the authorization server's answer is not a token", is_final=False)
    except (httpx2.HTTPError, SwarmError, ValueError) as error:
        text = f"the authorization server cannot be reached: {type(error).__name__}: {error!s:.200}"
        return RefreshFailed(text, is_final=False)
    return with_token(login, token)


def with_token(login: StoredLogin, token: OAuthToken) -> StoredLogin:
    """The login after the server has given a token; what it leaves out stays."""
    return msgspec.structs.replace(
        login,
        access_token=token.access_token,
        refresh_token=token.refresh_token or login.refresh_token,
        expires_at=0.0 if token.expires_in is None else time.time() + token.expires_in,
        scopes=login.scopes if token.scope is None else tuple(token.scope.split()),
    )


async def revoke_login(login: StoredLogin) -> str:
    """Tell the authorization server to forget the tokens (RFC 7009); why it did not, or ""."""
    if not login.revocation_endpoint:
        return "its server has no address for that"
    token, hint = login.refresh_token, "refresh_token"
    if not token:
        token, hint = login.access_token, "access_token"
    data = {"token": token, "token_type_hint": hint}
    try:
        response = await _post(login, login.revocation_endpoint, data)
    except (httpx2.HTTPError, SwarmError, ValueError) as error:
        return f"{type(error).__name__}: {error!s:.200}"
    return "" if response.status_code == 200 else f"HTTP {response.status_code}"


async def _post(login: StoredLogin, url: str, data: dict[str, str]) -> httpx2.Response:
    headers: dict[str, str] = {"Accept": "application/json"}
    form = {**data, "client_id": login.client_id}
    if login.client_auth == "client_secret_basic" and login.client_secret:
        pair = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif login.client_auth == "client_secret_post" and login.client_secret:
        form["client_secret"] = login.client_secret
    async with open_login_client(login.url) as client:
        return await client.post(url, data=form, headers=headers)
