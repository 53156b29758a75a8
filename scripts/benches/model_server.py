"""A model server with no latency: answers /responses at once, from bytes made beforehand.

Run as a process of its own. Arguments: PORT-FILE MODE TURNS. It writes its port to PORT-FILE and,
at SIGTERM, one JSON object with what it saw to PORT-FILE.seen.

Modes: `tools` calls exec_command `true` TURNS times, then answers; `paced` does so, but takes 50 ms
to write each call; `parallel` calls 16 in each response; `answer` answers at once;
`prefix` as `tools`, but it counts tokens, answers a request for a summary, and compares each input
with the one before; `siblings` as `answer`, but it compares the first requests of children with
each other; `hang` never answers; `stream` sends 30 chunks a second until it is ended.
"""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

SUMMARY_WANTED = b"The conversation is about to be replaced by a summary"
_PACE_S = 0.05
OF_A_CHILD = b"<spawned_agent_context>"


def event(kind: str, **fields: Any) -> bytes:
    body = json.dumps({"type": kind, **fields})
    return f"event: {kind}\ndata: {body}\n\n".encode()


def completed(number: int, tokens: int = 100) -> bytes:
    usage = {
        "input_tokens": tokens + number,
        "input_tokens_details": {"cached_tokens": 90},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 10 + number,
    }
    return event("response.completed", response={"id": f"resp_{number}", "usage": usage})


def call(number: int, command: str, tokens: int = 100) -> bytes:
    item = {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": "exec_command",
        "arguments": json.dumps({"cmd": command}),
    }
    return (
        event("response.created", response={"id": f"resp_{number}"})
        + event("response.output_item.added", item={**item, "arguments": ""})
        + event("response.output_item.done", item=item)
        + completed(number, tokens)
    )


def parallel_calls(number: int, command: str) -> bytes:
    """16 calls in one response, all of them different."""
    parts = [event("response.created", response={"id": f"resp_{number}"})]
    for index in range(16):
        item = {
            "type": "function_call",
            "id": f"fc_{number}_{index}",
            "call_id": f"call_{number}_{index}",
            "name": "exec_command",
            "arguments": json.dumps({"cmd": f"{command} {number} {index}"}),
        }
        parts.append(event("response.output_item.added", item={**item, "arguments": ""}))
        parts.append(event("response.output_item.done", item=item))
    return b"".join(parts) + completed(number)


def message(number: int, text: str) -> bytes:
    item = {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    return (
        event("response.created", response={"id": f"resp_{number}"})
        + event("response.output_item.added", item={**item, "content": []})
        + event("response.output_text.delta", item_id=f"msg_{number}", delta=text)
        + event("response.output_item.done", item=item)
        + completed(number)
    )


def chunked(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def common_prefix_bytes(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


class Prefixes:
    """What of each input is the input before it, byte by byte."""

    def __init__(self) -> None:
        self.before = b""
        self.heads: set[bytes] = set()
        self.told = {"requests": 0, "input_bytes": 0, "reusable_bytes": 0, "breaks": 0, "heads": 0}

    def note(self, body: bytes) -> None:
        start, end = body.index(b'"input":[') + 9, body.rindex(b'],"prompt_cache_key":')
        given = body[start:end]
        whole = given.startswith(self.before)
        same = len(self.before) if whole else common_prefix_bytes(given, self.before)
        self.heads.add(body[:start] + body[end:])
        self.before = given
        self.told["requests"] += 1
        self.told["input_bytes"] += len(given)
        self.told["reusable_bytes"] += same
        self.told["breaks"] += not whole
        self.told["heads"] = len(self.heads)


class Siblings:
    """How much of each child's first request is that of the child before, from its first byte."""

    def __init__(self) -> None:
        self.before = b""
        self.told = {"requests": 0, "bytes": 0, "least_share": 1.0}

    def note(self, body: bytes) -> None:
        if OF_A_CHILD not in body:
            return
        if self.before:
            share = common_prefix_bytes(body, self.before) / len(body)
            self.told["least_share"] = min(self.told["least_share"], share)
        self.before = body
        self.told["requests"] += 1
        self.told["bytes"] = len(body)


def _nth(command: str, number: int) -> str:
    return f"{command} {number}" if command in ("true", "touch") else command


class BenchModelServer:
    def __init__(self, mode: str, turns: int, command: str) -> None:
        self.mode, self.turns = mode, turns
        # A number makes each call another one: endless repeats would end the turn.
        asked = (
            parallel_calls(n, command) if mode == "parallel" else call(n, _nth(command, n))
            for n in range(turns)
        )  # fmt: skip
        self.answers = [chunked(one) + b"0\r\n\r\n" for one in asked]
        self.last = chunked(message(turns, "done")) + b"0\r\n\r\n"
        self.requests_of: dict[bytes, int] = {}
        self.seen: list[dict[str, Any]] = []
        self.prefixes, self.siblings = Prefixes(), Siblings()
        self.command = command
        self.first_byte: float | None = None
        self.first_body = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                began = time.monotonic()
                self.first_byte = self.first_byte or began
                low = head.lower()
                at = low.find(b"content-length:")
                size = int(low[at + 15 : low.index(b"\r\n", at)]) if at >= 0 else 0
                body = await reader.readexactly(size)
                self.first_body = self.first_body or body
                await self.answer(began, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    async def answer(self, began: float, body: bytes, writer: asyncio.StreamWriter) -> None:
        at = body.find(b'"prompt_cache_key":"')
        who = body[at + 20 : at + 56] if at >= 0 else b""
        number = self.requests_of.get(who, 0)
        self.requests_of[who] = number + 1
        if self.mode == "hang":
            self.note(who, number, began, len(body))
            await asyncio.sleep(3600)
        writer.write(HEAD)
        if self.mode == "prefix":
            self.prefixes.note(body)
            writer.write(self.counted(number, body))
            self.note(who, number, began, len(body))
            return
        if self.mode == "siblings":
            self.siblings.note(body)
        if self.mode == "stream":
            self.note(who, number, began, len(body))
            await self.stream(writer)
        is_call = self.mode in ("tools", "paced", "parallel") and number < self.turns
        if is_call and self.mode == "paced":
            await self.write_slowly(call(number, _nth(self.command, number)), writer)
        else:
            writer.write(self.answers[number] if is_call else self.last)
        self.note(who, number, began, len(body))

    async def write_slowly(self, answer: bytes, writer: asyncio.StreamWriter) -> None:
        """The call begins, and is complete 50 ms later."""
        done = answer.index(b"event: response.output_item.done")
        writer.write(chunked(answer[:done]))
        await writer.drain()
        await asyncio.sleep(_PACE_S)
        writer.write(chunked(answer[done:]) + b"0\r\n\r\n")

    def counted(self, number: int, body: bytes) -> bytes:
        """A call, the summary that was asked for, or the end."""
        if SUMMARY_WANTED in body[-40_000:]:
            return chunked(message(number, "a summary")) + b"0\r\n\r\n"
        if number >= self.turns:
            return self.last
        return (
            chunked(call(number, f"{self.command} {number + 400}", len(body) // 4)) + b"0\r\n\r\n"
        )

    async def stream(self, writer: asyncio.StreamWriter) -> None:
        item = {"type": "message", "id": "msg_s", "role": "assistant", "content": []}
        writer.write(chunked(event("response.output_item.added", item=item)))
        delta = chunked(event("response.output_text.delta", item_id="msg_s", delta="some words "))
        for _ in range(30 * 60):
            writer.write(delta)
            await writer.drain()
            await asyncio.sleep(1 / 30)

    def note(self, who: bytes, number: int, began: float, size: int) -> None:
        self.seen.append(
            {
                "who": who.decode(),
                "number": number,
                "began": began,
                "answered": time.monotonic(),
                "bytes": size,
            }
        )


def texts_bytes(value: Any) -> int:
    """Bytes of all texts in a request's body: what no way of writing it down could leave out."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return 0
    return sum(map(texts_bytes, value))


async def serve_until_told(server: BenchModelServer, port_file: Path) -> None:
    """Serve on a free port, which is written to `port_file`; at SIGTERM, write what was seen."""
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 26, backlog=1024)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    fresh = port_file.with_suffix(".new")
    fresh.write_text(str(listener.sockets[0].getsockname()[1]))
    fresh.replace(port_file)
    await stop.wait()
    seen = {
        "first_byte": server.first_byte,
        "first_texts": texts_bytes(json.loads(server.first_body or b"null")),
        "requests": server.seen,
        "prefix": server.prefixes.told,
        "siblings": server.siblings.told,
    }
    Path(f"{port_file}.seen").write_text(json.dumps(seen))  # noqa: ASYNC240  at its end, alone


async def main() -> None:
    port_file, mode, turns = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    command = sys.argv[4] if len(sys.argv) > 4 else "true"
    server = BenchModelServer(mode, turns, command)
    await serve_until_told(server, port_file)


if __name__ == "__main__":
    asyncio.run(main())
