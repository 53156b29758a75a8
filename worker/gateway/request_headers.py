"""The headers of a request that are the provider's own: what grants access, and configured ones."""

from collections.abc import Mapping
from typing import NamedTuple

from swarm.mailbox.protocol.spec import ProviderSpec

from ..parts.key_parts import SentRequest, part_headers
from .http.http_route import address_of

_OWN_HEADERS = {"messages": {"anthropic-version": "2023-06-01"}}
_KEY_HEADERS = {"messages": "x-api-key"}


class Unsigned(NamedTuple):
    """What is about to be sent, as far as a signature covers it."""

    method: str
    url: str
    body: bytes = b""


def own_headers(
    provider: ProviderSpec, keys: Mapping[str, str], request: Unsigned
) -> dict[str, str]:
    """The key, or a signature, and the configured headers; lower-case names, so that a later one
    replaces an earlier one.

    A header whose variable is unset or blank is left out. No configured header takes the place of a
    signature. Raises ValueError for an address that is none.
    """
    headers: dict[str, str] = dict(_OWN_HEADERS.get(provider.wire_api, {}))
    if provider.credentials is None and provider.env_key:
        headers |= _with_key(provider, keys.get(provider.env_key, "").strip())
    for name, value in provider.http_headers.items():
        headers[name.lower()] = value
    for name, variable in provider.env_http_headers.items():
        if value := keys.get(variable, "").strip():
            headers[name.lower()] = value
    if provider.credentials is not None:
        address = address_of(request.url)
        host = {name.decode(): value.decode() for name, value in address.headers if name == b"host"}
        target = address.url.target.decode("ascii")
        sent = SentRequest(request.method, target, host, request.body)
        headers |= part_headers(provider, keys, sent)
    return headers


def _with_key(provider: ProviderSpec, key: str) -> dict[str, str]:
    name = provider.key_header.lower() or _KEY_HEADERS.get(provider.wire_api, "authorization")
    return {name: f"Bearer {key}" if name == "authorization" else key} if key else {}
