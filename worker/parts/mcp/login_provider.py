"""The SDK's login with a server, as a person starts it: their scopes, resource and client count."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)

from swarm.mailbox.protocol.mcp import McpServer
from swarm.roles.config.login_store import StoredLogin

from .login_callback import LoginCallback
from .token_refresh import with_token


@dataclass
class LoginMemory:
    """What the SDK keeps of a login, until it is over. A `TokenStorage`."""

    client: OAuthClientInformationFull | None = None
    tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return None  # a login starts again

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclass
class _Context(OAuthContext):
    """With the resource that the server's table names, if it names one."""

    wanted_resource: str = ""

    def get_resource_url(self) -> str:
        return self.wanted_resource or super().get_resource_url()

    def should_include_resource_param(self, protocol_version: str | None = None) -> bool:
        return bool(self.wanted_resource) or super().should_include_resource_param(protocol_version)


class PersonsLogin(OAuthClientProvider):
    """Logs in once, when the server first asks for it, or with the first request (`is_forced`)."""

    def __init__(
        self,
        server: McpServer,
        memory: LoginMemory,
        callback: LoginCallback,
        show: Callable[[str], Awaitable[None]],
        *,
        scopes: tuple[str, ...],
        is_forced: bool,
    ) -> None:
        metadata = OAuthClientMetadata.model_validate(
            {
                "client_name": "swarm",
                "redirect_uris": [callback.redirect_uri],
            }
        )
        address = server.oauth_client_id
        client_url = address if address.startswith("https://") else None
        super().__init__(server.url, metadata, memory, client_metadata_url=client_url)
        self.context = _Context(
            server_url=server.url,
            client_metadata=metadata,
            storage=memory,
            redirect_handler=self._redirect,
            callback_handler=callback.wait,
            client_metadata_url=client_url,
            wanted_resource=server.oauth_resource,
        )
        self._memory, self._callback, self._show = memory, callback, show
        self._server, self._scopes, self._is_forced = server, scopes, is_forced

    async def _redirect(self, url: str) -> None:
        metadata = self.context.oauth_metadata
        if metadata is not None:
            grants = metadata.grant_types_supported
            if grants is not None and "authorization_code" not in grants:
                raise OAuthFlowError("its authorization server offers no login of a person")
            methods = metadata.code_challenge_methods_supported
            if methods is not None and "S256" not in methods:
                raise OAuthFlowError("its authorization server offers no PKCE with S256")
        self._callback.expect(url)
        await self._show(url)

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                if outgoing is request:
                    response = self._as_challenge(response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _as_challenge(self, response: httpx2.Response) -> httpx2.Response:
        """The server's challenge with the scopes that the person asked for."""
        is_challenge = response.status_code in {401, 403}
        if is_challenge and self._scopes:
            address = extract_field_from_www_auth(response, "resource_metadata")
            error = extract_field_from_www_auth(response, "error")
            words = [f'scope="{" ".join(self._scopes)}"']
            words += [f'resource_metadata="{address}"'] if address else []
            words += [f'error="{error}"'] if error else []
            response.headers["WWW-Authenticate"] = f"Bearer {', '.join(words)}"
        if not is_challenge and self._is_forced and self._memory.tokens is None:
            headers = {"WWW-Authenticate": f'Bearer scope="{" ".join(self._scopes)}"'}
            return httpx2.Response(
                401, headers=headers if self._scopes else {}, request=response.request
            )
        return response

    async def _validate_resource_match(self, prm: ProtectedResourceMetadata) -> None:
        """As the SDK, but the resource of the server's table counts too."""
        if not self._server.oauth_resource or str(prm.resource) != self._server.oauth_resource:
            await super()._validate_resource_match(prm)

    async def _exchange_token_authorization_code(
        self, auth_code: str, code_verifier: str
    ) -> httpx2.Request:
        client, metadata = self.context.client_info, self.context.oauth_metadata
        if client is not None and client.client_secret and not client.token_endpoint_auth_method:
            offered = metadata.token_endpoint_auth_methods_supported if metadata else None
            is_posted = offered is not None and "client_secret_basic" not in offered
            method = "client_secret_post" if is_posted else "client_secret_basic"
            client.token_endpoint_auth_method = method
        return await super()._exchange_token_authorization_code(auth_code, code_verifier)

    def result(self) -> StoredLogin | None:
        """The login to be kept; None if there was none."""
        tokens, client = self._memory.tokens, self._memory.client
        if tokens is None or client is None:
            return None
        metadata = self.context.oauth_metadata
        has_resource = self.context.should_include_resource_param(self.context.protocol_version)
        revocation = metadata.revocation_endpoint if metadata is not None else None
        login = StoredLogin(
            server=self._server.name,
            url=self._server.url,
            access_token=tokens.access_token,
            token_endpoint=self._get_token_endpoint(),
            client_id=client.client_id,
            client_secret=client.client_secret or "",
            client_auth=client.token_endpoint_auth_method or "none",
            issuer=str(metadata.issuer) if metadata is not None else "",
            resource=self.context.get_resource_url() if has_resource else "",
            revocation_endpoint=str(revocation) if revocation is not None else "",
            registration=client.model_dump_json(exclude_none=True),
        )
        return with_token(login, tokens)
