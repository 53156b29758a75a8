"""Lines of an editor: what is no message is answered, and the next one is read."""

import asyncio
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.supervisor.clients.acp.editor_transport import EditorTransport


def read_all(data: bytes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(messages that were received, errors that were answered)."""
    sink = io.BytesIO()

    async def receive() -> list[dict[str, Any]]:
        transport = EditorTransport(io.BytesIO(data), sink)
        found = []
        while (message := await transport.receive()) is not None:
            found.append(message)
        return found

    messages = asyncio.run(receive())
    return messages, [json.loads(line) for line in sink.getvalue().splitlines()]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"7",
        b"[1]",
        b"\xff",
        b'{"method": 7}',
        b'{"id": []}',
        b"[" * 10_000,
    ],
)
def test_a_line_that_is_no_message_is_answered_and_skipped(line):
    good = {"jsonrpc": "2.0", "id": 1, "method": "m"}
    messages, errors = read_all(line + b"\n\n" + json.dumps(good).encode() + b"\n")
    assert messages == [good]
    (error,) = errors
    assert error["id"] is None
    assert error["error"]["message"]


@given(st.lists(st.binary(max_size=40).filter(lambda data: b"\n" not in data), max_size=5))
def test_no_bytes_end_the_reading(lines):
    good = b'{"method": "last"}\n'
    messages, _ = read_all(b"\n".join([*lines, good]))
    assert messages[-1] == {"method": "last"}


@pytest.mark.parametrize("data", ["x" * 10_000, object()])
def test_details_of_an_error_that_are_long_or_no_json_are_left_out(data):
    sink = io.BytesIO()

    async def send() -> None:
        error = {"code": 1, "message": "words", "data": data}
        await EditorTransport(io.BytesIO(), sink).send({"id": 1, "error": error})

    asyncio.run(send())
    assert json.loads(sink.getvalue()) == {"id": 1, "error": {"code": 1, "message": "words"}}


@pytest.mark.parametrize("error", [b'"no"', b'{"code": "x"}', b"{}"])
def test_an_answer_that_cannot_be_read_reaches_who_waits_for_it_as_an_error(error):
    (message,), errors = read_all(b'{"jsonrpc": "2.0", "id": 7, "error": ' + error + b"}\n")
    assert (message["id"], message["error"]["code"]) == (7, -32603)
    assert errors == []
