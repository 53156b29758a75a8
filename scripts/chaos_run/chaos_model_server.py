"""The model server: says the play's lines over HTTP, as badly as the page tells it.

A process of its own: `model.py PORT-FILE PAGE SERVED SEED`. It keeps no conversation: each answer
follows from the request. To SERVED goes one line for each answer that it sent whole. It lives as
long as somebody holds the other end of its stdin.
"""

import asyncio
import gzip
import json
import random
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # scripts, not a package

from chaos_scenario import Conversation, ModelReply, Scenario, ToolCall, make_scenario, next_reply
from fault_controls import FaultControls

_PART = re.compile(r"\[\[part (/[a-z/]+)\]\]")
_JUDGED = re.compile(r"(allow|deny) (root-[a-z0-9-]+)")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_PACKED_HEAD = _HEAD[:-2] + b"content-encoding: gzip\r\n\r\n"
_MUCH = "so it is. " * (200 << 10)  # 2 MiB: no frame holds it
_SILENCE_S = 1.0  # of a server that says nothing, before it hangs up
_REVIEW = "APPROVAL REQUEST"
_MAIL_MARK = "Message Type:"  # mails are shown as an assistant's words


def parse_conversation(body: Mapping[str, Any]) -> Conversation:
    """The conversation in a request of the Responses API; `path` "" is no agent of the play."""
    outputs: dict[str, str | None] = {}
    said: list[str] = []
    asked: list[str] = []
    for item in body["input"]:
        match item.get("type", "message"):
            case "function_call":
                outputs.setdefault(item["call_id"], None)
            case "function_call_output":
                outputs[item["call_id"]] = text_of(item["output"])
            case "message":
                words = text_of(item["content"])
                is_said = item["role"] == "assistant" and not words.startswith(_MAIL_MARK)
                (said if is_said else asked).append(words)
            case _:
                pass
    heard = "\n".join(asked)
    part = None if _REVIEW in heard else _PART.search(heard)  # a reviewer reads others' words
    who = str(body.get("prompt_cache_key", ""))[-6:]
    return Conversation(part.group(1) if part else "", outputs, "\n".join(said), heard, who)


def text_of(content: object) -> str:
    """The words of a content in any of its shapes."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(piece.get("text", "")) for piece in content)
    return ""


def review_reply(heard: Conversation) -> ModelReply:
    """A reviewer's verdict: what the play says of the last action it was shown."""
    words = _JUDGED.findall(heard.input_text)
    allowed = bool(words) and words[-1][0] == "allow"
    outcome, risk = ("allow", "low") if allowed else ("deny", "high")
    verdict = {"outcome": outcome, "risk_level": risk, "rationale": "as the play has it"}
    return ModelReply(text=json.dumps(verdict))


def render_events(line: ModelReply, number: int) -> list[bytes]:
    """The events of one answer, in pieces between which it can be cut."""
    items = [_call_item(call) for call in line.calls] or [_words_item(line.text, number)]
    pieces = [_event("response.created", response={"id": f"resp_{number}"})]
    pieces += [
        _event("response.output_item.added", item={**item, "content": [], "arguments": ""})
        + _event("response.output_item.done", item=item)
        for item in items
    ]
    usage = {
        "input_tokens": 100 + number % 50,
        "input_tokens_details": {"cached_tokens": 10},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 110 + number % 50,
    }
    return [
        *pieces,
        _event("response.completed", response={"id": f"resp_{number}", "usage": usage}),
    ]


def _call_item(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call", "id": f"fc_{call.call_id}", "call_id": call.call_id,
        "name": call.tool, "arguments": json.dumps(call.arguments),
    }  # fmt: skip


def _words_item(text: str, number: int) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _chunked(pieces: list[bytes]) -> bytes:
    return b"".join(f"{len(one):x}\r\n".encode() + one + b"\r\n" for one in pieces)


def _refusal(status: int) -> bytes:
    body = json.dumps({"error": {"message": f"bad luck {status}", "code": "bad_luck"}}).encode()
    head = f"HTTP/1.1 {status} Bad Luck\r\ncontent-type: application/json\r\nretry-after: 0.2\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class ChaosModelServer:
    """Answers each request by itself."""

    def __init__(self, play: Scenario, knobs: FaultControls, served: Path, seed: str) -> None:
        self._play, self._knobs, self._served = play, knobs, served
        self._lots, self._number = random.Random(seed), 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        try:
            while await self._answer(*await _read_request(reader), writer):
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """False: the connection ends."""
        if not head.startswith(b"POST"):
            writer.write(_refusal(404))
            return True
        heard = parse_conversation(json.loads(body))
        self._number += 1
        number = self._number
        pieces = render_events(
            next_reply(self._play, heard) if heard.path else review_reply(heard), number
        )
        match self._knobs.provider:
            case "429" | "500" as status:
                writer.write(_refusal(int(status)))
                return True
            case "nothing":
                await asyncio.sleep(_SILENCE_S)
                return False
            case "garbage":
                writer.write(_HEAD + _chunked([b"event: nonsense\ndata: {]\n\n"]) + b"0\r\n\r\n")
                return True
            case "half":
                writer.write(_HEAD + _chunked(pieces)[: self._lots.randrange(20, 600)])
                return False
            case "cut":
                writer.write(_HEAD + _chunked(pieces[:-1]))
                return False
            case "damaged":  # an item lacks a byte, and what follows it is sound
                at = self._lots.randrange(1, len(pieces) - 1)
                pieces[at] = pieces[at][:-3] + b"\n\n"
                writer.write(_HEAD + _chunked(pieces) + b"0\r\n\r\n")
                return True
            case "oversized":
                pieces.insert(1, _event("response.output_text.delta", delta="\ud83d"))
                pieces.insert(2, _event("response.output_text.delta", delta="\ude00" + _MUCH))
                writer.write(_HEAD + _chunked(pieces) + b"0\r\n\r\n")
            case "packed":
                whole = [gzip.compress(b"".join(pieces))]
                writer.write(_PACKED_HEAD + _chunked(whole) + b"0\r\n\r\n")
            case "sound":
                writer.write(_HEAD + _chunked(pieces) + b"0\r\n\r\n")
        await writer.drain()
        with self._served.open("a") as log:
            log.write(json.dumps({"number": number, "path": heard.path}) + "\n")
        return True


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    low = head.lower()
    at = low.find(b"content-length:")
    size = int(low[at + 15 : low.index(b"\r\n", at)]) if at >= 0 else 0
    return head, await reader.readexactly(size)


async def main() -> None:
    """Serve on a free port of the loopback, until killed or left alone."""
    port_file, page, served, seed = sys.argv[1:5]
    server = ChaosModelServer(make_scenario(seed), FaultControls(Path(page)), Path(served), seed)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 26, backlog=256)
    alone = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), alone.set)  # nobody writes: its end
    _tell_port(port_file, listener.sockets[0].getsockname()[1])
    await alone.wait()


def _tell_port(port_file: str, port: int) -> None:
    fresh = Path(f"{port_file}.new")
    fresh.write_text(str(port))
    fresh.replace(port_file)


def served_numbers(served: Path) -> Iterator[int]:
    """The answers that were sent whole."""
    if served.exists():
        yield from (json.loads(line)["number"] for line in served.read_text().splitlines())


if __name__ == "__main__":
    asyncio.run(main())
