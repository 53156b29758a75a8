"""What a stdio server writes becomes messages, however it is split; its excesses end it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.parts.mcp import stdio_transport
from swarm.worker.parts.mcp.stdio_transport import (
    MAX_GARBAGE_LINES,
    MAX_NOTIFICATIONS,
    LineReader,
    ServerExcess,
)


def answer(number, text="x"):
    return {"jsonrpc": "2.0", "id": number, "result": {"text": text}}


def line(message):
    return json.dumps(message).encode() + b"\n"


def read(*chunks):
    reader = LineReader()
    return [one.message for chunk in chunks for one in reader.feed(chunk, now=0.0)]


@given(st.lists(st.text(max_size=20), max_size=8), st.integers(1, 40))
def test_messages_do_not_depend_on_how_the_output_is_split(texts, size):
    data = b"".join(line(answer(number, text)) for number, text in enumerate(texts))
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert [one.result["text"] for one in read(*chunks)] == texts


def test_lines_that_are_no_messages_are_left_out():
    assert [one.id for one in read(b"log\n\n[1]\n" + line(answer(1)) + b"{}\n")] == [1]


def test_an_answer_that_cannot_be_read_fails_its_own_request():
    deep = "[" * 3_000 + "]" * 3_000
    data = f'{{"jsonrpc": "2.0", "id": 7, "result": {{"a": {deep}}}}}\n'.encode()
    (failed,) = read(data)
    assert (failed.id, failed.error.message) == (7, "its answer is not a message that can be read")


@pytest.mark.parametrize(
    "data",
    [
        b"no\n" * (MAX_GARBAGE_LINES + 1),
        line({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        * (MAX_NOTIFICATIONS + 1),
    ],
    ids=["garbage", "notifications"],
)
def test_too_much_of_anything_ends_the_connection(data):
    with pytest.raises(ServerExcess):
        read(data)


def test_a_line_that_is_too_long_ends_the_connection(monkeypatch):
    monkeypatch.setattr(stdio_transport, "MAX_LINE_BYTES", 100)
    with pytest.raises(ServerExcess):
        read(b"x" * 101)
