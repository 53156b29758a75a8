"""JSON-RPC messages over stdin and stdout, one a line, each bounded.

What is no message is answered with an error and left out. While it is served, descriptor 1 is
stderr and descriptor 0 is empty: whatever else is printed never reaches the client.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import BinaryIO, NamedTuple, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from swarm.mailbox.base.bounded_formats import decode_json_as

_T = TypeVar("_T")
MAX_LINE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20


class MessageStreams(NamedTuple):
    """What the SDK's server reads and writes."""

    reader: MemoryObjectReceiveStream[SessionMessage | Exception]
    writer: MemoryObjectSendStream[SessionMessage]


class StandardStreams(NamedTuple):
    """Private copies of stdin and stdout."""

    source: BinaryIO
    sink: BinaryIO


def take_standard_streams() -> StandardStreams:
    """Keep stdin and stdout for messages alone. Call once; the process ends with them."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    return StandardStreams(source, sink)


@asynccontextmanager
async def open_messages(streams: StandardStreams) -> AsyncIterator[MessageStreams]:
    """Read and write until the client closes its end."""
    received, reader = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writer, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = writer.clone()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_lines, streams.source, received, refusals)
        tasks.start_soon(_write_lines, streams.sink, outgoing)
        yield MessageStreams(reader, writer)
        tasks.cancel_scope.cancel()


async def _read_lines(
    source: BinaryIO,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
) -> None:
    async with received, refusals:
        while line := await _in_thread(partial(source.readline, MAX_LINE_BYTES + 1)):
            if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                await _in_thread(partial(_skip_line, source))
                await refusals.send(
                    SessionMessage(
                        _refuse(types.INVALID_REQUEST, "a message has at most 64 MiB").answer
                    )
                )
            elif line.strip():
                message = read_message(line)
                if isinstance(message, RefusedMessage):
                    await refusals.send(SessionMessage(message.answer))
                else:
                    await received.send(SessionMessage(message))


async def _in_thread(call: Callable[[], _T]) -> _T:
    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)


class RefusedMessage(NamedTuple):
    """A line that is no message, and the error that answers it."""

    answer: types.JSONRPCError


class _AnswerHead(msgspec.Struct):
    """What tells an answer from other messages: an id, and no method."""

    id: int | str
    method: msgspec.Raw | None = None


def read_message(line: bytes) -> types.JSONRPCMessage | RefusedMessage:
    """The message of a line. An answer that cannot be read is an error of the client's.

    Else whoever waits for that answer would wait for ever.
    """
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        what = f"that is no JSON-RPC message: {first['msg']}"[:300]
        if (answered := _answered_id(line)) is not None:
            data = types.ErrorData(code=types.INTERNAL_ERROR, message=what)
            return types.JSONRPCError(jsonrpc="2.0", id=answered, error=data)
        code = types.PARSE_ERROR if first["type"] == "json_invalid" else types.INVALID_REQUEST
        return _refuse(code, what)
    if isinstance(message, types.JSONRPCNotification) and has_id(line):
        return _refuse(types.INVALID_REQUEST, "the id of a request is a text or a number")
    return message


def has_id(line: bytes) -> bool:
    """True for an object with an `id`: a request, even if the id is none that can be answered."""
    try:
        return "id" in decode_json_as(line, dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True  # JSON for one of two readers alone


def _answered_id(line: bytes) -> int | str | None:
    """The id that an answer names; None for any other message."""
    try:
        head = decode_json_as(line, _AnswerHead)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return head.id if head.method is None else None


def _refuse(code: int, words: str) -> RefusedMessage:
    error = types.ErrorData(code=code, message=words)
    return RefusedMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=error))


def _skip_line(source: BinaryIO) -> None:
    while (part := source.readline(_CHUNK_BYTES)) and not part.endswith(b"\n"):
        pass


async def _write_lines(sink: BinaryIO, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with outgoing:
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await _in_thread(partial(_write, sink, text.encode() + b"\n"))
            except (OSError, ValueError):
                return  # the client has gone: what is left has no reader


def _write(sink: BinaryIO, data: bytes) -> None:
    sink.write(data)
    sink.flush()
