"""The HTTP client of one MCP server: address, headers, login; why the server refused, in words."""

import re

import httpx2

from swarm.mailbox.protocol.mcp import McpServer

from .guarded_http import GuardedTransport
from .http_refusal import refusal_of
from .token_login import TokenLogin
from .tool_schema import clean_text

_HTTP_TIMEOUT_S = 30.0
_MAX_WORDS = 200  # of a refusal, for people
# What servers say of a session that they do not know, beside the 404 that the protocol asks for.
_UNKNOWN_SESSION = re.compile(
    r"session[^.]{0,60}?(?:not found|not exist|unknown|invalid|expired|terminated|no longer)"
    r"|(?:unknown|invalid|expired|no valid|no such|missing)[^.]{0,20}? session",
    re.IGNORECASE,
)


class HttpAccess:
    """One server's client. Use `client` as a context manager.

    Args:
        headers: With their values.
        login: None: the headers are all that it needs.
    """

    def __init__(
        self, server: McpServer, headers: dict[str, str], login: httpx2.Auth | None
    ) -> None:
        self._server, self._login = server, login
        timeout = httpx2.Timeout(_HTTP_TIMEOUT_S, read=server.tool_timeout_s + _HTTP_TIMEOUT_S)
        self.client = httpx2.AsyncClient(
            headers=headers,
            auth=login,
            timeout=timeout,
            transport=GuardedTransport(server.url),
            trust_env=False,
        )

    def has_forgotten(self, error: Exception) -> bool:
        """Whether the error says that the server does not know the session any more."""
        refusal = refusal_of(error)
        if refusal is None or not refusal.in_session or refusal.status >= 500:
            return False
        return refusal.status in {404, 410} or bool(_UNKNOWN_SESSION.search(refusal.words))

    def explain(self, error: Exception) -> str:
        """What is behind an error of the SDK; "" if it says enough."""
        if isinstance(self._login, TokenLogin) and self._login.fault:
            return self._login.fault
        refusal = refusal_of(error)
        if refusal is None or refusal.is_message:
            return ""
        if refusal.status in {401, 403} and self._server.bearer:
            return (
                f"it refused the token of the variable {self._server.bearer} "
                f"(HTTP {refusal.status}); set it to one that is valid"
            )
        words = self.redact(clean_text(refusal.words, limit=_MAX_WORDS))
        return f"it answered with HTTP {refusal.status}" + (f": {words}" if words else "")

    def redact(self, text: str) -> str:
        """The text without the tokens that were used: the server knows them, nobody else need."""
        if isinstance(self._login, TokenLogin):
            return self._login.redactor.redact(text)
        return text
