"""Access to `swarm mcp-server` over HTTP: by token, from pages of this machine or from none."""

import hmac

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .http_address import ListenAddress

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_SCHEME = "bearer "


def security_settings(address: ListenAddress) -> TransportSecuritySettings:
    """The Host and Origin headers that are accepted. A missing Origin is no page at all."""
    hosts = [*LOOPBACK_NAMES] if address.is_loopback else [address.name.rpartition(":")[0]]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{host}:{address.port}" for host in hosts],
        allowed_origins=[f"http://{host}:*" for host in LOOPBACK_NAMES],
    )


class TokenAccess:
    """Answers 401 to whoever does not show the token, before anything of the body is read."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_known(Headers(scope=scope)):
            refusal = PlainTextResponse(
                "a bearer token is needed: the one that `swarm mcp-server` printed\n",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_known(self, headers: Headers) -> bool:
        given = headers.get("authorization", "")
        if given[: len(_SCHEME)].lower() != _SCHEME:
            return False
        word = given[len(_SCHEME) :].strip().encode("latin-1", "replace")
        return hmac.compare_digest(word, self._token)
