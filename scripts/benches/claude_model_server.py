"""The bench's stories for Claude Code, in the Messages wire: tool turns, and a team of sub-agents.

Arguments: PORT-FILE AGENTS TOOLS TURNS. The root calls Bash TURNS times, starts AGENTS sub-agents
in one response, and answers when all have reported; each of them calls Bash TOOLS times.
"""

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from model_server import HEAD, BenchModelServer, chunked, serve_until_told

_LEAF = re.compile(rb"bench:leaf <(\w+)>")
_NOTHING = (
    b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
)


def response(number: int, blocks: list[dict[str, Any]]) -> bytes:
    """One message with these blocks of content."""
    usage = {"input_tokens": 100, "output_tokens": 10}
    message: dict[str, Any] = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "bench",
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    parts = [_event("message_start", message=message)]
    for index, block in enumerate(blocks):
        is_call = block["type"] == "tool_use"
        empty = {**block, "input": {}} if is_call else {**block, "text": ""}
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            if is_call
            else {"type": "text_delta", "text": block["text"]}
        )
        parts += [
            _event("content_block_start", index=index, content_block=empty),
            _event("content_block_delta", index=index, delta=delta),
            _event("content_block_stop", index=index),
        ]
    reason = "tool_use" if any(one["type"] == "tool_use" for one in blocks) else "end_turn"
    stopped = {"stop_reason": reason, "stop_sequence": None}
    parts += [_event("message_delta", delta=stopped, usage=usage), _event("message_stop")]
    return b"".join(parts)


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool(name: str, call_id: str, **arguments: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{call_id}", "name": name, "input": arguments}


class ClaudeServer(BenchModelServer):
    """Tells the root and its sub-agents apart by their first words."""

    def __init__(self, agents: int, tools: int, turns: int) -> None:
        super().__init__("team", 0, "")
        self.agents, self.tools, self.turns = agents, tools, turns

    async def answer(self, began: float, body: bytes, writer: asyncio.StreamWriter) -> None:
        if b'"messages"' not in body:
            writer.write(_NOTHING)
            return
        if b'"tools":[{' not in body:  # a title, or another side request
            writer.write(HEAD + chunked(response(0, [text("bench")])) + b"0\r\n\r\n")
            return
        is_root = b"bench:root" in body
        found = None if is_root else _LEAF.search(body)
        who = b"root" if found is None else found[1]
        number = self.requests_of.get(who, 0)
        self.requests_of[who] = number + 1
        name = who.decode()
        blocks = self.root(number, body) if is_root else self.leaf(name, number)
        writer.write(HEAD + chunked(response(number, blocks)) + b"0\r\n\r\n")
        self.seen.append({"kind": "root" if is_root else "leaf", "name": name, "number": number,
                          "began": began, "answered": time.monotonic(),
                          "bytes": len(body)})  # fmt: skip

    def root(self, number: int, body: bytes) -> list[dict[str, Any]]:
        if number < self.turns:
            return [tool("Bash", f"root_{number}", command=f"true {number}", description="x")]
        if number == self.turns and self.agents:
            starter = "Agent" if b'"name":"Agent"' in body else "Task"
            return [
                tool(
                    starter, f"spawn_{index}", description="part",
                    prompt=f"bench:leaf <r{index}> Do your part.", subagent_type="general-purpose",
                )
                for index in range(self.agents)
            ]  # fmt: skip
        return [text("all are done")]

    def leaf(self, name: str, number: int) -> list[dict[str, Any]]:
        if number < self.tools:
            command = f"true {number}"
            return [tool("Bash", f"{name}_{number}", command=command, description="x")]
        return [text("done")]


async def main() -> None:
    port_file, *numbers = sys.argv[1:]
    await serve_until_told(ClaudeServer(*map(int, numbers)), Path(port_file))


if __name__ == "__main__":
    asyncio.run(main())
