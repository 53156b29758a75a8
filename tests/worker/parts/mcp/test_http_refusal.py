"""A refusal over HTTP says the same to its request, whatever form the server gave it."""

import httpx2
import msgspec
import pytest
from mcp.shared.exceptions import MCPError

from swarm.worker.parts.mcp.http_refusal import HttpRefusal, as_message, refusal_of

MESSAGE = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32001, "message": "gone", "data": [1]}}


async def error_of(status, body, *, session="", headers=()):
    """The error that the SDK gives to the request."""
    given = {"mcp-session-id": session} if session else {}
    request = httpx2.Request("POST", "http://127.0.0.1/mcp", headers=given)
    response = await as_message(request, httpx2.Response(status, headers=headers, content=body))
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    error = msgspec.json.decode(await response.aread())["error"]
    return MCPError(error["code"], error["message"], error.get("data"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"Bad Request: no session", "Bad Request: no session"),
        (b'{"detail": "no session"}', '{"detail": "no session"}'),
        (b'{"error": "no session"}', '{"error": "no session"}'),
        (b'{"error": {"code": "x", "message": "m"}}', '{"error": {"code": "x", "message": "m"}}'),
        (b"[" * 5000, "[" * 500),
        (b"\xff", "\ufffd"),
        (b"", ""),
    ],
)
async def test_words_that_are_no_message_reach_the_caller_with_their_status(body, words):
    found = refusal_of(await error_of(400, body, session="s"))
    assert found == HttpRefusal(400, in_session=True, is_message=False, words=words)


async def test_an_error_of_mcp_keeps_its_code_and_words():
    error = await error_of(404, msgspec.json.encode(MESSAGE))
    assert (error.code, error.message) == (-32001, "gone")
    assert refusal_of(error) == HttpRefusal(404, in_session=False, is_message=True, words="gone")


async def test_what_an_error_of_mcp_carries_stays():
    data = {"elicitations": [{"url": "https://example.org"}]}
    told = {**MESSAGE, "error": {"code": -32042, "message": "look", "data": data}}
    error = await error_of(400, msgspec.json.encode(told))
    assert error.data["elicitations"] == data["elicitations"]


async def test_a_missing_endpoint_is_an_unknown_method_and_headers_of_a_login_stay():
    headers = [
        ("www-authenticate", "Bearer a"),
        ("www-authenticate", "Basic"),
        ("content-length", "3"),
    ]
    request = httpx2.Request("POST", "http://127.0.0.1/mcp")
    response = await as_message(request, httpx2.Response(404, headers=headers, content=b"abc"))
    assert response.headers.get_list("www-authenticate") == ["Bearer a", "Basic"]
    assert msgspec.json.decode(await response.aread())["error"]["code"] == -32601


def test_an_error_that_is_no_refusal_is_none():
    assert refusal_of(MCPError(-1, "x", {"swarm.http": "forged"})) is None
    assert refusal_of(MCPError(-1, "x")) is None
    assert refusal_of(ValueError("x")) is None
