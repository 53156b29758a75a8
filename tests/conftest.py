"""Fixtures for all rooms: `model_server`, a real HTTP server on loopback that says what it is told.

It speaks HTTP/1.1 through h11 in a Trio task of the test, keeps connections alive, records every
request, and can misbehave: statuses, raw bytes, silence, early ends. Sockets are real, so tests
that use it run on the real clock and under `trio.fail_after`.
"""

import gc
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import h11
import msgspec
import pytest
import trio
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# A shell that starts a job in the background has it ignore Ctrl-C, `nohup` has it ignore SIGHUP,
# and so does all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No test measures time: a busy machine is no counterexample.
settings.register_profile("swarm", deadline=None)
settings.load_profile("swarm")

Piece = bytes | float | str  # bytes to send; seconds to wait; "hang" or "close"


class Reply(NamedTuple):
    """One answer. Without a `content-length` the body is chunked."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream"),)
    pieces: tuple[Piece, ...] = ()


class Seen(NamedTuple):
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


def sse(*payloads: Any) -> bytes:
    """Server-sent events: text and bytes as they are, anything else as JSON."""
    parts = []
    for payload in payloads:
        if isinstance(payload, str):
            payload = payload.encode()
        data = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
        parts.append(b"data: " + data + b"\n\n")
    return b"".join(parts)


def block_deltas(block: dict[str, Any]) -> list[dict[str, Any]]:
    """How a block of the Messages wire arrives: its text in two halves, then its signature."""
    match block:
        case {"type": "text", "text": text}:
            return [{"type": "text_delta", "text": half} for half in halves(text)]
        case {"type": "thinking", "thinking": text, "signature": signature}:
            deltas = [{"type": "thinking_delta", "thinking": half} for half in halves(text)]
            return [*deltas, {"type": "signature_delta", "signature": signature}]
        case {"type": "tool_use", "input": given}:
            raw = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            return [{"type": "input_json_delta", "partial_json": half} for half in halves(raw)]
        case _:
            return []


def halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


class ModelServer:
    """What the test tells the server, and what the server saw."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.url = f"{origin}/v1"
        self.replies: list[Reply] = []  # taken from the front
        self.default: Reply | None = None  # when none is left; else status 500
        # Decides by what is asked, before the queue: for many agents at one server.
        self.choose: Callable[[Seen], Reply | None] = lambda _: None
        self.requests: list[Seen] = []
        # What the server says of its models, by target; else status 404. No part of the queue.
        self.lists: dict[str, bytes] = {}
        self.listed: list[str] = []  # targets that were asked for
        self.connections = 0
        self.hung_up = trio.Event()  # a client closed before its answer was complete

    # --- telling it what to say ------------------------------------------------------------

    def add(self, *pieces: Piece, status: int = 200, **headers: str) -> None:
        """Queue an answer. Header names are written with underscores."""
        named = {"content_type": "text/event-stream", **headers}
        pairs = tuple((name.replace("_", "-"), value) for name, value in named.items())
        self.replies.append(Reply(status, pairs, pieces))

    @staticmethod
    def reply(*pieces: Piece) -> Reply:
        """An answer that `choose` may give."""
        return Reply(pieces=pieces)

    def add_error(self, status: int, error: dict[str, Any] | None = None, **headers: str) -> None:
        """Queue a refusal with a JSON body."""
        body = msgspec.json.encode({"error": error or {"message": f"status {status}"}})
        self.add(body, status=status, content_type="application/json", **headers)

    def add_responses(self, *items: dict[str, Any], usage: dict[str, Any] | None = None) -> None:
        """Queue a whole answer of the Responses wire."""
        self.add(self.responses(*items, usage=usage))

    def add_chat(self, *deltas: dict[str, Any], finish: str = "stop") -> None:
        """Queue a whole answer of the Chat wire."""
        self.add(self.chat(*deltas, finish=finish))

    sse = staticmethod(sse)

    @staticmethod
    def message(text: str) -> dict[str, Any]:
        """A message item of the Responses wire."""
        content = [{"type": "output_text", "text": text}]
        return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}

    @staticmethod
    def function_call(name: str, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
        """A call item of the Responses wire."""
        text = msgspec.json.encode(arguments).decode()
        return {"type": "function_call", "name": name, "arguments": text, "call_id": call_id}

    @staticmethod
    def responses(*items: dict[str, Any], usage: dict[str, Any] | None = None) -> bytes:
        """The event stream of the Responses wire: each item added, streamed if text, and done."""
        events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r1"}}]
        for item in items:
            events.append({"type": "response.output_item.added", "item": item})
            events += [
                {"type": "response.output_text.delta", "delta": part["text"], "item_id": item["id"]}
                for part in item.get("content", ())
            ]
            events.append({"type": "response.output_item.done", "item": item})
        told = usage or {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        events.append({"type": "response.completed", "response": {"id": "r1", "usage": told}})
        return sse(*events)

    @staticmethod
    def chat(*deltas: dict[str, Any], finish: str = "stop") -> bytes:
        """The event stream of the Chat wire, with usage at its end."""
        chunks: list[Any] = [{"id": "c1", "choices": [{"delta": delta}]} for delta in deltas]
        chunks.append({"id": "c1", "choices": [{"delta": {}, "finish_reason": finish}]})
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return sse(*chunks, {"id": "c1", "choices": [], "usage": usage}, "[DONE]")

    def add_messages(self, *blocks: dict[str, Any], stop: str = "end_turn", **usage: int) -> None:
        """Queue a whole answer of the Messages wire."""
        self.add(self.messages(*blocks, stop=stop, **usage))

    @staticmethod
    def messages(*blocks: dict[str, Any], stop: str = "end_turn", **usage: int) -> bytes:
        """The event stream of the Messages wire: each block started, streamed and stopped."""
        told = {"input_tokens": 10, "output_tokens": 1, **usage}
        start = {"id": "msg_1", "role": "assistant", "content": [], "usage": told}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
        events.append({"type": "ping"})
        for index, block in enumerate(blocks):
            kept = {"type", "id", "name", "data"}
            shell = {
                name: value if name in kept else {} if name == "input" else ""
                for name, value in block.items()
            }
            events.append({"type": "content_block_start", "index": index, "content_block": shell})
            events += [
                {"type": "content_block_delta", "index": index, "delta": delta}
                for delta in block_deltas(block)
            ]
            events.append({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": stop, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}})
        events.append({"type": "message_stop"})
        return b"".join(
            b"event: " + event["type"].encode() + b"\n" + sse(event) for event in events
        )

    # --- serving ---------------------------------------------------------------------------

    async def serve_connection(self, stream: trio.SocketStream) -> None:
        """All requests of one connection."""
        self.connections += 1
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with stream:
                connection = h11.Connection(h11.SERVER)
                while await self._serve_one(stream, connection):
                    connection.start_next_cycle()

    async def _serve_one(self, stream: trio.SocketStream, connection: h11.Connection) -> bool:
        head: h11.Request | None = None
        body = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some())
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return False
        assert head is not None
        headers = {name.decode(): value.decode() for name, value in head.headers}
        seen = Seen(head.method.decode(), head.target.decode(), headers, body)
        if seen.method == "GET" or seen.target in self.lists:
            self.listed.append(seen.target)
            body, known = self.lists.get(seen.target, b"{}"), seen.target in self.lists
            head_pairs = (("content-type", "application/json"),)
            return await self._answer(
                stream, connection, Reply(200 if known else 404, head_pairs, (body,))
            )
        self.requests.append(seen)
        chosen = self.choose(seen)
        queued = self.replies.pop(0) if chosen is None and self.replies else None
        reply = chosen or queued or self.default or Reply(500)
        return await self._answer(stream, connection, reply)

    async def _answer(
        self, stream: trio.SocketStream, connection: h11.Connection, reply: Reply
    ) -> bool:
        pairs = [(name, value) for name, value in reply.headers]
        try:
            head = h11.Response(status_code=reply.status, headers=pairs)
            await stream.send_all(connection.send(head) or b"")
            for piece in reply.pieces:
                match piece:
                    case "close":
                        return False
                    case "hang":
                        await self._hang(stream)
                        return False
                    case float():
                        await trio.sleep(piece)
                    case _:
                        data = piece.encode() if isinstance(piece, str) else piece
                        await stream.send_all(connection.send(h11.Data(data=data)) or b"")
            await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
        except trio.BrokenResourceError:
            self.hung_up.set()
            raise
        return connection.our_state is h11.DONE

    async def _hang(self, stream: trio.SocketStream) -> None:
        """Say nothing until the client goes away."""
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass
        self.hung_up.set()


@pytest.fixture
async def model_server(nursery: trio.Nursery) -> AsyncIterator[ModelServer]:
    """A model provider on loopback. Queue answers with `add…`, look at `requests`."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    server = ModelServer(f"http://127.0.0.1:{port}")
    nursery.start_soon(trio.serve_listeners, server.serve_connection, [listener])
    yield server


# Test files that share a thing of which this machine has one: they run one after the other.
_SHARED = {
    "tests/live/test_hosts.py": "the Ray cluster",
    "tests/live/test_hosts_elsewhere.py": "the Ray cluster",
}


class ByFile(LoadScopeScheduling):
    """A file's tests run in one process, so that its fixtures are made once."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return _SHARED.get(file, file)


def pytest_xdist_make_scheduler(config, log) -> LoadScopeScheduling:
    return ByFile(config, log)


def pytest_collection_finish() -> None:
    """17,000 tests are a million objects, which no later collection need look at."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: one that began last would have the other processes wait for it.

    Live tests wait much of their time, those of scripts play whole runs; of the others, which never
    wait, the longest are those of many cases.
    """
    counts = Counter(item.nodeid.split("::", 1)[0] for item in items)

    def order(item: pytest.Item) -> tuple[int, int, str]:
        file = item.nodeid.split("::", 1)[0]
        room = (
            0 if file.startswith("tests/live/") else 1 if file.startswith("tests/scripts/") else 2
        )
        return (room, -counts[file], file)

    items.sort(key=order)
