"""A sign-in with an authorization server: by a browser with PKCE, or by a device code."""

import base64
import hashlib
import secrets
import sys
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import msgspec
import trio

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.parts.accounts.account_messages import LoginTable
from swarm.mailbox.parts.accounts.job.login_job import LoginJob
from swarm.roles.base.private_address import is_private_address

from ...mcp.login_callback import Redirect, open_callback
from ...mcp.login_flow import PersonsScreen
from ..token_requests import (
    IssuerReply,
    LoginFailed,
    TokenAnswer,
    find_endpoints,
    post_fields,
    read_tokens,
    refusal_code,
)

_STATE_BYTES, _VERIFIER_BYTES = 32, 64
_DEVICE_S = 900.0
_MOST_INTERVAL_S = 60.0
_STANDARD = "urn:ietf:params:oauth:grant-type:device_code"
_CODE_CHARS = 64
Nap = Callable[[float], Awaitable[None]]


class _DeviceCode(msgspec.Struct):
    """RFC 8628, 3.2, and the same in the words of the `usercode` flow."""

    user_code: str = ""
    device_code: str = ""
    device_auth_id: str = ""
    verification_uri: str = ""
    interval: float | str = 5.0
    expires_in: float = _DEVICE_S

    @property
    def pause_s(self) -> float:
        try:
            return min(max(float(self.interval), 0.0), _MOST_INTERVAL_S)
        except ValueError:
            return 5.0


class _PrivateCode(msgspec.Struct):
    """What the `usercode` flow ends with."""

    authorization_code: str
    code_verifier: str


async def sign_in_by_browser(job: LoginJob, table: LoginTable) -> TokenAnswer:
    """Raises LoginFailed, LoginRefused; the caller bounds the time."""
    endpoints = await find_endpoints(table)
    if not endpoints.authorization_endpoint:
        raise LoginFailed(f"{table.issuer} names no address for browsers; try --device")
    verifier = _random(_VERIFIER_BYTES)
    redirect = Redirect(host=table.redirect_host, path=table.redirect_path)
    async with open_callback(table.ports or (0,), job.paste_from, redirect) as callback:
        url = authorization_url(
            endpoints.authorization_endpoint, table, callback.redirect_uri, verifier
        )
        callback.expect(url)
        await PersonsScreen(job.source.name, open_browser=job.opens_browser).authorization(url)
        answer = await callback.wait()
        if answer.iss is not None and answer.iss.rstrip("/") != table.issuer:
            raise LoginFailed("the answer names another issuer than the one that was asked")
        if answer.iss is None and endpoints.authorization_response_iss_parameter_supported:
            raise LoginFailed("the answer does not name its issuer, as the issuer says it does")
        return await exchange_code(
            endpoints.token_endpoint, table, answer.code, verifier, callback.redirect_uri
        )


def authorization_url(endpoint: str, table: LoginTable, redirect: str, verifier: str) -> str:
    """Where the person agrees. Its state and its challenge are new."""
    digest = hashlib.sha256(verifier.encode()).digest()
    query = dict(table.parameters)
    if table.workspaces and table.workspace_parameter:
        query[table.workspace_parameter] = ",".join(table.workspaces)
    query |= {
        "response_type": "code",
        "client_id": table.client_id,
        "redirect_uri": redirect,
        "code_challenge": _base64(digest),
        "code_challenge_method": "S256",
        "state": _random(_STATE_BYTES),
    }
    if table.scopes:
        query["scope"] = " ".join(table.scopes)
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


async def exchange_code(
    endpoint: str, table: LoginTable, code: str, verifier: str, redirect: str
) -> TokenAnswer:
    """The tokens for a code. Raises LoginFailed."""
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect,
        "client_id": table.client_id,
        "code_verifier": verifier,
    }
    return read_tokens(await post_fields(endpoint, fields))


async def sign_in_by_device(table: LoginTable, nap: Nap = trio.sleep) -> TokenAnswer:
    """Show a code, and ask until the person has entered it elsewhere. Raises LoginFailed."""
    endpoints = await find_endpoints(table)
    endpoint, is_usercode = endpoints.device_authorization_endpoint, table.device_flow == "usercode"
    if not endpoint:
        raise LoginFailed(f"{table.issuer} offers no sign-in by device code")
    fields = {"client_id": table.client_id}
    if table.scopes and not is_usercode:
        fields["scope"] = " ".join(table.scopes)
    answer = await post_fields(endpoint, fields, body="json" if is_usercode else "form")
    code = _read_device_code(answer, table)
    page = table.device_page if is_usercode else code.verification_uri
    _show(code, page)
    with trio.move_on_after(max(1.0, min(code.expires_in, _DEVICE_S))):
        if is_usercode:
            return await _await_usercode(table, endpoints.token_endpoint, code, nap)
        return await _await_device(table, endpoints.token_endpoint, code, nap)
    raise LoginFailed("the code was not entered in time; start again")


def _read_device_code(answer: IssuerReply, table: LoginTable) -> _DeviceCode:
    if answer.status == 404:
        raise LoginFailed(
            f"{table.issuer} does not offer device codes to this client, account or workspace"
        )
    if answer.status != 200:
        raise LoginFailed(f"the request for a device code was refused ({_told(answer)})")
    try:
        code = decode_json_as(answer.body, _DeviceCode)
    except msgspec.DecodeError as error:
        raise LoginFailed("the answer to the request for a device code cannot be read") from error
    page = table.device_page or code.verification_uri
    if not (code.device_code or code.device_auth_id) or not _is_shown(code.user_code):
        raise LoginFailed("the answer to the request for a device code holds no code")
    if not is_private_address(page) or len(page) > 2_000:
        raise LoginFailed("the page for the device code has no address with https")
    return code


def _is_shown(text: str) -> bool:
    return 0 < len(text) <= _CODE_CHARS and text.isascii() and text.isprintable()


def _show(code: _DeviceCode, page: str) -> None:
    sys.stderr.write(
        f"Open this page on any device, and enter the code:\n\n  {page}\n\n  {code.user_code}\n\n"
        "Enter it only if you have started this sign-in yourself.\n"
    )
    sys.stderr.flush()


async def _await_device(
    table: LoginTable, endpoint: str, code: _DeviceCode, nap: Nap
) -> TokenAnswer:
    """RFC 8628, 3.4 and 3.5."""
    pause_s = code.pause_s
    fields = {
        "grant_type": _STANDARD,
        "device_code": code.device_code,
        "client_id": table.client_id,
    }
    while True:
        await nap(pause_s)
        answer = await post_fields(endpoint, fields)
        match refusal_code(answer.body) if answer.status != 200 else "":
            case "authorization_pending":
                continue
            case "slow_down":
                pause_s = min(pause_s + 5.0, _MOST_INTERVAL_S)
            case "access_denied":
                raise LoginFailed("the person refused the sign-in")
            case "expired_token":
                raise LoginFailed("the code was not entered in time; start again")
            case _:
                return read_tokens(answer)


async def _await_usercode(
    table: LoginTable, endpoint: str, code: _DeviceCode, nap: Nap
) -> TokenAnswer:
    """The server makes the PKCE pair, and answers 403 or 404 until the code was entered."""
    fields = {"device_auth_id": code.device_auth_id, "user_code": code.user_code}
    while True:
        await nap(code.pause_s)
        answer = await post_fields(table.device_token_endpoint, fields, body="json")
        if answer.status == 200:
            break
        said = refusal_code(answer.body)
        if said in {"access_denied", "expired_token"} or answer.status not in {403, 404}:
            raise LoginFailed(f"the sign-in by device code was refused ({_told(answer)})")
    try:
        given = decode_json_as(answer.body, _PrivateCode)
    except msgspec.DecodeError as error:
        raise LoginFailed("the answer to the entered code cannot be read") from error
    return await exchange_code(
        endpoint, table, given.authorization_code, given.code_verifier, table.device_redirect
    )


def _told(answer: IssuerReply) -> str:
    code = refusal_code(answer.body)
    return f"HTTP {answer.status}{f', {code}' if code else ''}"


def _random(size_bytes: int) -> str:
    return _base64(secrets.token_bytes(size_bytes))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
