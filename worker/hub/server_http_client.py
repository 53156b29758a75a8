"""The HTTP client of one MCP server: address, headers, login; why the server refused, in words."""

import re

import httpx2
import trio
from mcp.shared.exceptions import MCPError

from swarm.mailbox.protocol.mcp import McpServer

from .guarded_http import AnswerTooLarge, GuardedTransport
from .token_login import TokenLogin
from .tool_schema import clean_text

_HTTP_TIMEOUT_S = 30.0
_REFUSAL_LIMIT_S = 5.0  # for the body of a refusal
_REFUSAL_BYTES = 500  # that are looked at
_SESSION_HEADER = "mcp-session-id"
# What servers say of a session that they do not know, beside the 404 that the protocol asks for.
_UNKNOWN_SESSION = re.compile(
    r"session[^.]{0,60}?(?:not found|not exist|unknown|invalid|expired|terminated|no longer)"
    r"|(?:unknown|invalid|expired|no valid|no such|missing)[^.]{0,20}? session",
    re.IGNORECASE,
)
_UNTOLD = "Server returned an error response"  # the SDK's words for a status of its transport


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
        self._status = 0
        self._status_in_session = 0  # of the last request that named a session
        self._refusal = ""  # what the last answer said, if it was a refusal
        timeout = httpx2.Timeout(_HTTP_TIMEOUT_S, read=server.tool_timeout_s + _HTTP_TIMEOUT_S)
        self.client = httpx2.AsyncClient(
            headers=headers,
            auth=login,
            timeout=timeout,
            transport=GuardedTransport(server.url),
            trust_env=False,
            event_hooks={"response": [self._note_status]},
        )

    async def _note_status(self, response: httpx2.Response) -> None:
        self._status = response.status_code
        self._refusal = await _read_refusal(response)
        if _SESSION_HEADER in response.request.headers:
            self._status_in_session = response.status_code

    def has_forgotten(self, error: Exception) -> bool:
        """Whether the error says that the server does not know the session any more."""
        if not isinstance(error, MCPError) or self._status != self._status_in_session:
            return False
        if self._status in {404, 410}:
            return True
        words = f"{error.message[:500]}\n{self._refusal}"
        return 400 <= self._status < 500 and bool(_UNKNOWN_SESSION.search(words))

    def explain(self, error: Exception) -> str:
        """What is behind an error of the SDK; "" if it says enough."""
        if isinstance(self._login, TokenLogin) and self._login.fault:
            return self._login.fault
        if not isinstance(error, MCPError) or error.message != _UNTOLD:
            return ""
        if self._status in {401, 403} and self._server.bearer:
            return (
                f"it refused the token of the variable {self._server.bearer} "
                f"(HTTP {self._status}); set it to one that is valid"
            )
        words = clean_text(self._refusal, limit=200)
        return f"it answered with HTTP {self._status}" + (
            f": {self.redact(words)}" if words else ""
        )

    def redact(self, text: str) -> str:
        """The text without the tokens that were used: the server knows them, nobody else need."""
        if isinstance(self._login, TokenLogin):
            return self._login.redactor.redact(text)
        return text


async def _read_refusal(response: httpx2.Response) -> str:
    """The beginning of what a refusal says; the SDK gives on only what is a message of MCP."""
    kind = response.headers.get("content-type", "").lower()
    if response.status_code < 400 or kind.startswith("text/event-stream"):
        return ""
    try:
        with trio.fail_after(_REFUSAL_LIMIT_S):
            body = await response.aread()
    except (trio.TooSlowError, AnswerTooLarge, httpx2.HTTPError):
        return ""
    return body[:_REFUSAL_BYTES].decode("utf-8", "replace")
