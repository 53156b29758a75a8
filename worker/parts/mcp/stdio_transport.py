"""Messages with a stdio server: one JSON-RPC message a line, each line bounded.

A line that is no message is counted and left out. Too many of them, too many notifications, or a
line that is too long end the connection, with the reason in `fault`.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
import mcp_types
import trio
from mcp.shared.message import SessionMessage

from .server_process import ServerProcess
from .session_streams import ReadStream, WriteStream

MAX_LINE_BYTES = 32 << 20
MAX_GARBAGE_LINES = 1_000
MAX_NOTIFICATIONS = 5_000  # and requests, within `_WINDOW_S`
_WINDOW_S = 5.0
_ANSWER_ID = re.compile(rb'"id"\s*:\s*([0-9]{1,15})\b')
_HEAD_BYTES = 256
_UNREADABLE = "its answer is not a message that can be read"
_CHUNK_BYTES = 256 << 10
_STDIN_LIMIT_S = 20.0  # for a server that does not read


class Streams(NamedTuple):
    """What the SDK's session reads and writes."""

    reader: ReadStream[SessionMessage | Exception]
    writer: WriteStream[SessionMessage]


class ServerExcess(Exception):
    """The server broke a bound; the text says which."""


class LineReader:
    """Splits a server's output into messages. Keeps at most one line."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._scanned = 0
        self._garbage = 0
        self._notifications = 0
        self._window_began = 0.0

    def feed(self, data: bytes, *, now: float) -> list[SessionMessage]:
        """The messages that are complete now. Raises ServerExcess."""
        self._rest += data
        messages: list[SessionMessage] = []
        begin = 0
        while (end := self._rest.find(b"\n", max(self._scanned, begin))) >= 0:
            line = bytes(self._rest[begin:end]).strip()
            begin = self._scanned = end + 1
            if line and (message := self._read_line(line, now)) is not None:
                messages.append(message)
        del self._rest[:begin]
        self._scanned = len(self._rest)
        if len(self._rest) > MAX_LINE_BYTES:
            raise ServerExcess(f"it sent a message of more than {MAX_LINE_BYTES >> 20} MiB")
        return messages

    def _read_line(self, line: bytes, now: float) -> SessionMessage | None:
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            return self._read_garbage(line)
        if isinstance(message, mcp_types.JSONRPCNotification | mcp_types.JSONRPCRequest):
            self._count_notification(now)
        return SessionMessage(message)

    def _read_garbage(self, line: bytes) -> SessionMessage | None:
        """The failure of the request that an unreadable answer names; None for any other line."""
        self._garbage += 1
        if self._garbage > MAX_GARBAGE_LINES:
            raise ServerExcess(
                f"more than {MAX_GARBAGE_LINES} lines of its standard output are not messages; "
                "a stdio server must write its logs to standard error"
            )
        found = _ANSWER_ID.search(line[:_HEAD_BYTES]) or _ANSWER_ID.search(line[-_HEAD_BYTES:])
        if found is None or b'"method"' in line[:_HEAD_BYTES]:
            return None
        error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=_UNREADABLE)
        return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))

    def _count_notification(self, now: float) -> None:
        if now - self._window_began > _WINDOW_S:
            self._window_began, self._notifications = now, 0
        self._notifications += 1
        if self._notifications > MAX_NOTIFICATIONS:
            raise ServerExcess(f"it sent {MAX_NOTIFICATIONS} notifications within {_WINDOW_S:g} s")


class StdioTransport:
    """One server's messages. `ended` is set when no further one can come; `fault` says why."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self.ended = trio.Event()
        self.fault = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Streams]:
        """Carry messages for the duration of the block. The process is the caller's."""
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        from_session, to_server = anyio.create_memory_object_stream[SessionMessage](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, to_session)
            nursery.start_soon(self._write, to_server, to_session)
            try:
                yield Streams(from_server, from_session)
            finally:
                nursery.cancel_scope.cancel()
                for stream in (to_session, from_server, from_session, to_server):
                    stream.close()

    async def _read(
        self, to_session: anyio.abc.ObjectSendStream[SessionMessage | Exception]
    ) -> None:
        reader = LineReader()
        try:
            while data := await self._process.stdout.receive_some(_CHUNK_BYTES):
                for message in reader.feed(data, now=trio.current_time()):
                    await to_session.send(message)
            self.fault = self.fault or "it closed its standard output"
        except ServerExcess as flood:
            self.fault = str(flood)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            self.fault = self.fault or f"its output cannot be read: {error}"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.fault = self.fault or "the session was closed"
        finally:
            self.ended.set()
            await to_session.aclose()

    async def _write(
        self,
        to_server: anyio.abc.ObjectReceiveStream[SessionMessage],
        to_session: anyio.abc.ObjectSendStream[SessionMessage | Exception],
    ) -> None:
        async for one in to_server:
            line = one.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            try:
                with trio.fail_after(_STDIN_LIMIT_S):
                    await self._process.stdin.send_all(line.encode("utf-8", "replace"))
            except trio.TooSlowError:
                self.fault = f"it has read nothing for {_STDIN_LIMIT_S:g} s"
                break
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.fault = self.fault or "it closed its standard input"
                break
        self.ended.set()
        await to_session.aclose()
