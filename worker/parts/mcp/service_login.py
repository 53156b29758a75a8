"""The login of a program with a server: a client with a secret or a key, and no person (OAuth).

Its tokens are only in this process. The client proves itself to one authorization server: the one
that the table names, else one on the server's own host. So no server leads the secret elsewhere.
"""

import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

import httpx2
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.mcp import McpServer

from .login_provider import LoginMemory
from .token_login import TokenLogin
from .tool_schema import clean_text

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class ServiceLoginUnusable(SwarmError):
    """The table's client cannot be used; the text says what to do."""


class ServiceLogin(TokenLogin):
    """Puts the client's token on requests to its server, and gets one when the server wants it."""

    def __init__(self, server: McpServer, credentials: Mapping[str, str]) -> None:
        """Raises ServiceLoginUnusable."""
        super().__init__()
        self._provider = _provider(server, credentials)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self._provider.async_auth_flow(request)
        response: httpx2.Response | None = None
        try:
            outgoing = await anext(flow)
            while True:
                self._learn_token()
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            if response is not None and response.status_code == 401:
                self.fault = "it refused the token of its client (oauth_client_id)"
            elif response is not None and response.status_code < 400:
                self.fault = ""
        except (OAuthFlowError, OAuthTokenError) as error:
            self.fault = _why(error)
            yield request  # as it is: the server's refusal takes its course
        finally:
            await flow.aclose()

    def _learn_token(self) -> None:
        tokens = self._provider.context.current_tokens
        if tokens is not None:
            self.redactor.add_secrets(tokens.access_token)


def _provider(server: McpServer, credentials: Mapping[str, str]) -> OAuthClientProvider:
    with warnings.catch_warnings():
        # Without an issuer the SDK warns; `_check_issuer` holds the client to the server's host.
        warnings.simplefilter("ignore")
        if server.oauth_client_key:
            return _KeyLogin(server, _value(credentials, server.oauth_client_key))
        return _SecretLogin(server, _value(credentials, server.oauth_client_secret))


def _value(credentials: Mapping[str, str], variable: str) -> str:
    value = credentials.get(variable, "")
    if not value:
        raise ServiceLoginUnusable(f"the variable {variable} is not set")
    return value


class _SecretLogin(ClientCredentialsOAuthProvider):
    def __init__(self, server: McpServer, secret: str) -> None:
        super().__init__(
            server.url,
            LoginMemory(),
            server.oauth_client_id,
            secret,
            issuer=server.oauth_issuer or None,
        )
        self._server = server

    async def _exchange_token_client_credentials(self) -> httpx2.Request:
        check_issuer(self._server, self)
        metadata, client = self.context.oauth_metadata, self.context.client_info
        offered = metadata.token_endpoint_auth_methods_supported if metadata else None
        if client is not None and offered is not None and "client_secret_basic" not in offered:
            client.token_endpoint_auth_method = "client_secret_post"
        return await super()._exchange_token_client_credentials()


class _KeyLogin(PrivateKeyJWTOAuthProvider):
    def __init__(self, server: McpServer, key: str) -> None:
        super().__init__(
            server.url,
            LoginMemory(),
            server.oauth_client_id,
            assertion_with(server.oauth_client_id, key),
            issuer=server.oauth_issuer or None,
        )
        self._server = server

    async def _exchange_token_client_credentials(self) -> httpx2.Request:
        check_issuer(self._server, self)
        return await super()._exchange_token_client_credentials()


def check_issuer(server: McpServer, provider: OAuthClientProvider) -> None:
    """Before the client proves itself. Raises OAuthFlowError; sets the table's scopes."""
    context = provider.context
    if server.scopes:
        wanted = {"scope": " ".join(server.scopes)}
        context.client_metadata = context.client_metadata.model_copy(update=wanted)
    if server.oauth_issuer:
        return  # the SDK holds the client to it
    endpoint = context.oauth_metadata.token_endpoint if context.oauth_metadata is not None else None
    own, host = httpx2.URL(server.url), endpoint.host if endpoint is not None else ""
    if endpoint is not None and own.scheme == "https" != endpoint.scheme:
        raise OAuthFlowError("its authorization server would get the client's secret unencrypted")
    if host != own.host:
        raise OAuthFlowError(
            f"its authorization server is on another host ({host or 'unknown'}); if that is right, "
            "name it with oauth_issuer in the server's table"
        )


def assertion_with(client: str, key: str) -> Callable[[str], Awaitable[str]]:
    """What signs the client's proofs. Raises ServiceLoginUnusable for what is no private key."""
    return SignedJWTParameters(
        issuer=client, subject=client, signing_key=key, signing_algorithm=key_algorithm(key)
    ).create_assertion_provider()


def key_algorithm(key: str) -> str:
    """How a private key in PEM signs (RFC 7518). Raises ServiceLoginUnusable."""
    try:
        private = load_pem_private_key(key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ServiceLoginUnusable(
            "the value of oauth_client_key_env_var is not a private key in PEM without a password"
        ) from error
    match private:
        case rsa.RSAPrivateKey():
            return "RS256"
        case ec.EllipticCurvePrivateKey() if private.curve.name in _CURVES:
            return _CURVES[private.curve.name]
        case ed25519.Ed25519PrivateKey():
            return "EdDSA"
        case _:
            raise ServiceLoginUnusable("the key of oauth_client_key_env_var is of an unknown kind")


def _why(error: Exception) -> str:
    """What an authorization server wrote is left out: it may repeat secrets."""
    if isinstance(error, OAuthTokenError):
        return "its authorization server gave no token for the client of its table"
    return f"no token for its client: {clean_text(str(error), limit=300)}"
