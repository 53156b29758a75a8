"""JSON-RPC messages over stdio, one a line. What cannot be read is answered, and skipped."""

import asyncio
import sys
from collections.abc import Mapping
from typing import BinaryIO

import msgspec

MAX_LINE_BYTES = 64 * 1024 * 1024  # a longer message is dropped, whatever it is
_PARSE_ERROR, _INVALID_REQUEST, _INTERNAL_ERROR = -32700, -32600, -32603
_CHUNK_BYTES = 1024 * 1024
_MAX_DETAIL_BYTES = 8 * 1024
_decode = msgspec.json.Decoder(dict[str, object]).decode
_encode = msgspec.json.Encoder().encode


class EditorTransport:
    """A `Transport` of the SDK. Reading and writing wait in threads of their own."""

    def __init__(self, source: BinaryIO | None = None, sink: BinaryIO | None = None) -> None:
        self._source = source or sys.stdin.buffer
        self._sink = sink or sys.stdout.buffer
        self._writing = asyncio.Lock()
        self._is_closed = False

    async def receive(self) -> dict[str, object] | None:
        """The next message; None once the client has gone."""
        while True:
            line = await asyncio.to_thread(self._source.readline, MAX_LINE_BYTES + 1)
            if not line or self._is_closed:
                return None
            if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                await asyncio.to_thread(self._skip_line)
                await self._refuse(_INVALID_REQUEST, "the message is over 64 MiB")
            elif line.strip() and (message := await self._decoded(line)) is not None:
                return message

    async def send(self, message: Mapping[str, object]) -> None:
        """Raises ConnectionError if the client has gone."""
        data = _encoded(message) + b"\n"
        async with self._writing:
            if self._is_closed:
                raise ConnectionError("the client has gone")
            try:
                await asyncio.to_thread(self._write, data)
            except (OSError, ValueError) as error:
                self._is_closed = True
                raise ConnectionError("the client has gone") from error

    async def close(self) -> None:
        self._is_closed = True

    def _write(self, data: bytes) -> None:
        self._sink.write(data)
        self._sink.flush()

    def _skip_line(self) -> None:
        while (part := self._source.readline(_CHUNK_BYTES)) and not part.endswith(b"\n"):
            pass

    async def _decoded(self, line: bytes) -> dict[str, object] | None:
        try:
            message = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            await self._refuse(_PARSE_ERROR, f"that is no JSON-RPC message: {error}")
            return None
        if (problem := _problem(message)) is not None:
            if _is_answer(message):  # else whoever waits for it would wait for ever
                told = {"code": _INTERNAL_ERROR, "message": f"the answer is unreadable: {problem}"}
                return {"jsonrpc": "2.0", "id": message["id"], "error": told}
            await self._refuse(_INVALID_REQUEST, problem)
            return None
        return message

    async def _refuse(self, code: int, words: str) -> None:
        error = {"code": code, "message": words}
        await self.send({"jsonrpc": "2.0", "id": None, "error": error})


def _is_answer(message: Mapping[str, object]) -> bool:
    return "method" not in message and isinstance(message.get("id"), str | int)


def _problem(message: Mapping[str, object]) -> str | None:
    """What the SDK could not read of a message; None: nothing."""
    if not isinstance(message.get("method"), str | None):
        return "a method is a text"
    if not isinstance(message.get("id"), str | int | None):
        return "an id is a text or a number"
    match message.get("error"):
        case None | {"code": int(), "message": str()}:
            return None
        case _:
            return "an error has a code and a message"


def _encoded(message: Mapping[str, object]) -> bytes:
    """A message as JSON. The details of an error are left out if they are long or no JSON.

    They quote what the client sent, which may be of any size.
    """
    error = message.get("error")
    if not isinstance(error, dict) or "data" not in error:
        return _encode(message)
    try:
        if len(_encode(error["data"])) <= _MAX_DETAIL_BYTES:
            return _encode(message)
    except (TypeError, ValueError, RecursionError, msgspec.EncodeError):
        pass
    return _encode({**message, "error": {key: error[key] for key in ("code", "message")}})
