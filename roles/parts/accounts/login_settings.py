"""`[login.NAME]` as the person wrote it → with its form, checked."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from urllib.parse import urlsplit

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.accounts.account_messages import LoginTable

from ...base.private_address import is_private_address

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_ADDRESSES = (
    "issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint",
    "device_authorization_endpoint", "device_token_endpoint", "device_page", "device_redirect",
    "base_url",
)  # fmt: skip
_MOST_PORTS = 10


def check_logins(tables: Mapping[str, LoginTable]) -> dict[str, LoginTable]:
    """The tables with what their forms fill in. Raises UsageError that names the key."""
    return {name: _check(name, table) for name, table in tables.items()}


def is_account_name(text: str) -> bool:
    """True for `PROVIDER` and `PROVIDER@NAME`; each is fit for a file's name."""
    provider, sign, name = text.partition("@")
    return bool(_NAME.match(provider)) and (not sign or bool(_NAME.match(name)))


def _check(name: str, table: LoginTable) -> LoginTable:
    place = f"login.{name}"
    if not _NAME.match(name):
        raise UsageError(f"{place}: a login's name has letters, digits, `_`, `-` and `.`")
    filled = _with_form(place, table)
    for key, why in _problems(filled):
        raise UsageError(f"{place}.{key}: {why}")
    return filled


def _with_form(place: str, table: LoginTable) -> LoginTable:
    form: dict[str, object] = {}
    if table.form:
        if table.form not in _forms():
            known = ", ".join(_forms())
            raise UsageError(f"{place}.form: there is no form {table.form!r}; known: {known}")
        form = _forms()[table.form]
    issuer = (table.issuer or str(form.get("issuer", ""))).rstrip("/")
    values = form | msgspec.to_builtins(table)  # without what is as the defaults say
    for key in _ADDRESSES:
        values[key] = str(values.get(key, "")).replace("{issuer}", issuer)
    return msgspec.convert(values | {"issuer": issuer}, LoginTable)


def _problems(table: LoginTable) -> Iterator[tuple[str, str]]:
    for key in ("provider", "issuer", "client_id"):
        if not getattr(table, key).strip():
            more = "; ask the service for one of your own, none comes with swarm"
            yield key, f"must not be empty{more if key == 'client_id' else ''}"
    for key in _ADDRESSES:
        address: str = getattr(table, key)
        if address and not is_private_address(address):
            yield key, f"{address!r} is not an address with https (http only for this machine)"
    if not table.redirect_path.startswith("/") or not table.redirect_path.isprintable():
        yield "redirect_path", "must begin with /"
    if len(table.ports) > _MOST_PORTS or not all(0 < port < 65536 for port in table.ports):
        yield "ports", f"at most {_MOST_PORTS} numbers from 1 to 65535"
    if table.device_flow == "usercode" and not (
        table.device_token_endpoint and table.device_page and table.device_redirect
    ):
        yield "device_flow", "needs device_token_endpoint, device_page and device_redirect"
    for name, value in table.headers.items():
        if not _HEADER.match(name) or not (value.isascii() and value.isprintable()):
            yield f"headers.{name}", "not a valid header"
        elif "{" in value.replace("{account_id}", "") or value.count("{account_id}") > 1:
            yield f"headers.{name}", "only {account_id} is filled in, once"


def origin_of(address: str) -> str:
    """Scheme, host and port: what an account's key is bound to."""
    try:
        parts = urlsplit(address)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}"


@cache
def _forms() -> dict[str, dict[str, object]]:
    data = files("swarm.roles.parts.accounts").joinpath("login_forms.toml").read_bytes()
    return msgspec.toml.decode(data, type=dict[str, dict[str, object]])
