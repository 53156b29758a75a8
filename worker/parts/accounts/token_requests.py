"""Requests to an authorization server: its metadata, tokens, revocation. Bounded, no redirects.

What such a server writes is never shown: it may repeat secrets. Its error codes are, as words of
letters, digits and `_` alone.
"""

import base64
import re
import time
from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import urlencode

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.parts.accounts.account_messages import LoginTable
from swarm.roles.base.private_address import is_private_address
from swarm.roles.parts.accounts.stored_account import StoredAccount

from ...gateway.http.http_client import HttpRequest, TransportFailed, open_http

REQUEST_S = 20.0
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,60}\Z")
_METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_AGENT = "swarm-supervisor"
# Only these end a login: a proxy's page or a server in trouble must not cost the person a sign-in.
_FINAL = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
_MOST_TOKEN_CHARS = 32 << 10


class LoginFailed(SwarmError):
    """A sign-in or a refresh did not work. `is_final`: only a new sign-in helps."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class IssuerReply(NamedTuple):
    """Of a server; the body is bounded."""

    status: int
    body: bytes


class Endpoints(msgspec.Struct, frozen=True):
    """Where one issuer is asked for what; "": it has none."""

    authorization_endpoint: str = ""
    token_endpoint: str = ""
    revocation_endpoint: str = ""
    device_authorization_endpoint: str = ""
    issuer: str = ""
    authorization_response_iss_parameter_supported: bool = False


class TokenAnswer(msgspec.Struct):
    """What a token endpoint gives."""

    access_token: str = ""
    refresh_token: str = ""
    id_token: str = ""
    expires_in: float | None = None


class _Refusal(msgspec.Struct):
    error: object = ""  # a code, or an object that holds one
    code: str | None = None


async def find_endpoints(table: LoginTable) -> Endpoints:
    """The table's endpoints; those that it leaves out from metadata. Raises LoginFailed."""
    given = Endpoints(
        authorization_endpoint=table.authorization_endpoint,
        token_endpoint=table.token_endpoint,
        revocation_endpoint=table.revocation_endpoint,
        device_authorization_endpoint=table.device_authorization_endpoint,
    )
    if given.token_endpoint and (given.authorization_endpoint or table.device_flow == "usercode"):
        return given
    told = await _read_metadata(table.issuer)
    chosen = {
        name: getattr(given, name) or getattr(told, name)
        for name in Endpoints.__struct_fields__
        if name.endswith("_endpoint")
    }
    for name, address in chosen.items():
        if address and not is_private_address(address):
            raise LoginFailed(f"the metadata of {table.issuer} names a {name} without https")
    return msgspec.structs.replace(told, **chosen)


async def _read_metadata(issuer: str) -> Endpoints:
    for path in _METADATA:
        async with open_http(issuer) as client:
            text = await client.get_text(f"{issuer}{path}", {}, limit_s=REQUEST_S)
        if text is None:
            continue
        try:
            found = decode_json_as(text.encode(), Endpoints)
        except msgspec.DecodeError:
            continue
        if found.issuer.rstrip("/") != issuer:
            raise LoginFailed(f"the metadata of {issuer} is that of another issuer")
        if found.token_endpoint:
            return found
    raise LoginFailed(
        f"{issuer} has no metadata that can be read; name its endpoints in the login's table"
    )


async def post_fields(url: str, fields: Mapping[str, str], *, body: str = "form") -> IssuerReply:
    """Post a form or (`body="json"`) an object. Raises LoginFailed if there is no answer."""
    kind = "application/json" if body == "json" else "application/x-www-form-urlencoded"
    data = msgspec.json.encode(dict(fields)) if body == "json" else urlencode(fields).encode()
    headers = {"accept": "application/json", "content-type": kind, "user-agent": _AGENT}
    try:
        async with (
            open_http(url) as client,
            client.post(HttpRequest(url, headers, data, REQUEST_S)) as reply,
        ):
            return IssuerReply(reply.status, await reply.read_bounded())
    except TransportFailed as error:
        host = url.partition("?")[0]
        raise LoginFailed(f"{host} cannot be reached ({error})") from error


def read_tokens(answer: IssuerReply) -> TokenAnswer:
    """The tokens of an answer. Raises LoginFailed; final if the server refused for good."""
    if answer.status != 200:
        code = refusal_code(answer.body)
        told = f"HTTP {answer.status}{f', {code}' if code else ''}"
        raise LoginFailed(
            f"the authorization server answered with {told}",
            is_final=code in _FINAL or code.startswith("refresh_token_"),
        )
    try:
        tokens = decode_json_as(answer.body, TokenAnswer)
    except msgspec.DecodeError as error:
        raise LoginFailed("the authorization server's answer holds no token") from error
    values = (tokens.access_token, tokens.refresh_token, tokens.id_token)
    if not tokens.access_token or not all(
        len(one) <= _MOST_TOKEN_CHARS and one.isascii() and one.isprintable() for one in values
    ):
        raise LoginFailed("the authorization server's answer holds no token that can be sent")
    return tokens


def refusal_code(body: bytes) -> str:
    """The error's code in an answer (RFC 6749, 5.2, or within an object); "": none."""
    try:
        found = decode_json_as(body, _Refusal)
    except msgspec.DecodeError:
        return ""
    code = _inside(found.error, ("code",)) or found.error or found.code
    return code if isinstance(code, str) and _CODE.match(code) else ""


def with_tokens(account: StoredAccount, tokens: TokenAnswer, table: LoginTable) -> StoredAccount:
    """The account with what it was given; what the answer leaves out stays."""
    claims = read_claims(tokens.id_token)
    now = time.time()
    if tokens.expires_in is not None:
        expires_at = now + max(0.0, min(tokens.expires_in, 10 * 366 * 86_400.0))
    else:
        expires_at = _number(read_claims(tokens.access_token).get("exp"))
    email = claims.get("email")
    return msgspec.structs.replace(
        account,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or account.refresh_token,
        expires_at=expires_at,
        refreshed_at=now,
        account_id=_text(_inside(claims, table.account_claim)) or account.account_id,
        email=_text(email) or account.email,
        ended="",
    )


def read_claims(token: str) -> dict[str, object]:
    """The claims of a JSON web token; {} if it is none. Its signature is the issuer's affair: it
    came from there over TLS, and decides about nothing but what is shown and sent back to it.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        data = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return decode_json_as(data, dict[str, object])
    except (ValueError, msgspec.DecodeError):
        return {}


def _inside(claims: object, path: tuple[str, ...]) -> object:
    found: object = claims if path else None
    for step in path:
        if not isinstance(found, dict):
            return None
        found = cast("dict[str, object]", found).get(step)
    return found


def _text(value: object) -> str:
    """A short printable text, fit for a header; "" for anything else."""
    fits = isinstance(value, str) and len(value) <= 200 and value.isascii() and value.isprintable()
    return str(value) if fits else ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e11 else 0.0
