"""The team's story for a peer: the same work as `Workers` of agents_server, in Codex's own tools.

Codex knows its children by ids that it makes up, so the wait is written from the outputs of the
spawns. Arguments: PORT-FILE AGENTS TOOLS.
"""

import asyncio
import re
import sys
import time
from pathlib import Path

from model_server import HEAD, BenchModelServer, chunked, message, serve_until_told
from team_model_server import calls

_SPACE = "multi_agent_v1"
_WAIT_MS = 3_600_000
_THREAD = re.compile(rb'[{,]"thread_id":"([0-9a-f-]{36})"')


class PeerServer(BenchModelServer):
    """Answers the root and its children, told apart by their first words."""

    def __init__(self, agents: int, tools: int) -> None:
        super().__init__("team", 0, "")
        self.agents, self.tools = agents, tools
        self.done = 0
        self.kinds: dict[bytes, str] = {}  # by conversation: its first request tells

    async def answer(self, began: float, body: bytes, writer: asyncio.StreamWriter) -> None:
        who = _THREAD.findall(body)[-1]  # its cache key is one for the whole tree
        number = self.requests_of.get(who, 0)
        self.requests_of[who] = number + 1
        kind = self.kinds.setdefault(who, "leaf" if b"bench:leaf" in body else "root")
        reply = self.root(number, body) if kind == "root" else self.leaf(number)
        writer.write(HEAD + chunked(reply) + b"0\r\n\r\n")
        self.seen.append({"kind": kind, "number": number, "began": began,
                          "answered": time.monotonic(), "bytes": len(body)})  # fmt: skip

    def root(self, number: int, body: bytes) -> bytes:
        if number == 0:
            words = "bench:leaf Do your part."
            return calls(
                number, [("spawn_agent", {"message": words})] * self.agents, namespace=_SPACE
            )
        if self.done < self.agents:
            targets = sorted(set(re.findall(rb'agent_id\\*":\\*"([0-9a-f-]{36})', body)))
            names = [one.decode() for one in targets]
            wait = {"targets": names, "timeout_ms": _WAIT_MS}
            return calls(number, [("wait_agent", wait)], namespace=_SPACE)
        return message(number, "all are done")

    def leaf(self, number: int) -> bytes:
        if number < self.tools:
            return calls(number, [("exec_command", {"cmd": "true"})])
        self.done += 1
        return message(number, "done")


async def main() -> None:
    port_file, agents, tools = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    await serve_until_told(PeerServer(agents, tools), port_file)


if __name__ == "__main__":
    asyncio.run(main())
