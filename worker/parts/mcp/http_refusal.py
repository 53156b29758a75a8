"""What an MCP server's refusal over HTTP says, given on to the request that was refused.

The SDK passes on only refusals that are messages of MCP, and of others only that there was one.
Here each refusal of a request becomes such a message: its words and its status reach the caller,
also while other requests of the same server are answered.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeGuard

import httpx2
import mcp_types
import msgspec
import trio
from mcp.shared.exceptions import MCPError

from swarm.mailbox.base.bounded_formats import decode_json
from swarm.mailbox.base.errors import SwarmError

_SESSION_HEADER = "mcp-session-id"
_KEY = "swarm.http"  # within `data` of the error
_READ_LIMIT_S = 5.0
_MAX_WORDS = 500
_LOST_HEADERS = frozenset({"content-length", "content-type", "transfer-encoding"})


class HttpRefusal(NamedTuple):
    """How a server refused a request."""

    status: int
    in_session: bool  # the request named a session
    is_message: bool  # the server gave it as an error of MCP
    words: str  # the beginning of its text, or the error's message


def refusal_of(error: Exception) -> HttpRefusal | None:
    """How the request was refused, if that was over HTTP."""
    data: object = error.data if isinstance(error, MCPError) else None
    noted = data.get(_KEY) if _is_table(data) else None
    try:
        return msgspec.convert(noted, HttpRefusal)
    except msgspec.ValidationError:
        return None


async def as_message(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """The refusal as an error of MCP, in a response with the same status and headers."""
    body = await _read(response)
    told = _told_error(body)
    words = body[:_MAX_WORDS].decode("utf-8", "replace")
    if told is None:
        missing = response.status_code == 404 and _SESSION_HEADER not in request.headers
        code = mcp_types.METHOD_NOT_FOUND if missing else mcp_types.INTERNAL_ERROR
        error: dict[str, object] = {"code": code, "message": f"HTTP {response.status_code}"}
    else:
        error, words = told, str(told["message"])[:_MAX_WORDS]
    refusal = HttpRefusal(
        response.status_code, _SESSION_HEADER in request.headers, told is not None, words
    )
    data = error.get("data")
    error["data"] = {**(data if _is_table(data) else {}), _KEY: refusal}
    kept = [pair for pair in response.headers.multi_items() if pair[0].lower() not in _LOST_HEADERS]
    return httpx2.Response(
        response.status_code,
        headers=[*kept, ("content-type", "application/json")],
        content=msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error}),
        extensions=response.extensions,
    )


async def _read(response: httpx2.Response) -> bytes:
    """The body, bounded by its stream; none if it is too large or does not come."""
    try:
        with trio.fail_after(_READ_LIMIT_S):
            return await response.aread()
    except (trio.TooSlowError, SwarmError, httpx2.HTTPError):
        return b""
    finally:
        await response.aclose()


def _told_error(body: bytes) -> dict[str, object] | None:
    """The error of a body that is a message of MCP."""
    try:
        message = decode_json(body)
    except ValueError:
        return None
    error = message.get("error") if _is_table(message) else None
    if not _is_table(error) or type(error.get("code")) is not int:
        return None
    if not isinstance(error.get("message"), str):
        return None
    return {name: error[name] for name in ("code", "message", "data") if name in error}


def _is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict)
