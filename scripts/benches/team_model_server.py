"""A model server for teams: it knows from a conversation's first words which part it plays.

Run as a process of its own, like model_server.py: PORT-FILE STORY NUMBERS. The root's prompt holds
`bench:root`; the tasks that this server writes hold `bench:head` or `bench:leaf`. Every part is a
function from its request's number to the calls that it makes next; no calls = it has answered.

Who watches the run may have it stand still: `{"pause": N}` is answered once N leaves have asked and
none of them is answered, so that none is being started; after `{"pause": 0}` it goes on.
"""

import asyncio
import json
import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from model_server import (
    HEAD,
    BenchModelServer,
    chunked,
    completed,
    event,
    message,
    serve_until_told,
)

Call = tuple[str, dict[str, Any]]
WAIT_MS = 3_600_000
_KINDS = ("root", "head", "leaf")
_PAUSE = b'{"pause":'
_PATIENCE_S = 10.0  # then the run goes on: there are not so many leaves any more


def calls(number: int, wanted: list[Call], **more: str) -> bytes:
    """One response with these tool calls; `more` are further fields of each."""
    body = event("response.created", response={"id": f"resp_{number}"})
    for index, (name, arguments) in enumerate(wanted):
        item = {
            "type": "function_call",
            "id": f"fc_{number}_{index}",
            "call_id": f"call_{number}_{index}",
            "name": name,
            "arguments": json.dumps(arguments),
            **more,
        }
        body += event("response.output_item.added", item={**item, "arguments": ""})
        body += event("response.output_item.done", item=item)
    return body + completed(number)


def spawn(name: str, kind: str) -> Call:
    """The task names its reader, so that its first request tells who asks."""
    words = f"bench:{kind} <{name}> Do your part."
    return "spawn_agent", {"task_name": name, "message": words, "fork_turns": "none"}


def wait(names: list[str]) -> Call:
    return "wait_agent", {"targets": names, "for": "all", "timeout_ms": WAIT_MS}


class Story:
    """What the parts of a team do."""

    thinks_s = 0.0  # before the root's first answer


class Bursts(Story):
    """The root starts `agents` at once, `rounds` times; they answer when all have asked."""

    def __init__(self, agents: int, rounds: int) -> None:
        self.agents, self.rounds = agents, rounds
        self.asked = 0

    def root(self, name: str, number: int) -> list[Call]:
        turn, is_wait = divmod(number, 2)
        names = [f"r{turn}_{index}" for index in range(self.agents)]
        if turn == self.rounds:
            return []
        return [wait(names)] if is_wait else [spawn(one, "leaf") for one in names]

    head = root

    def leaf(self, name: str, number: int) -> list[Call]:
        self.asked += 1
        return []

    def may_answer(self, name: str, kind: str) -> bool:
        turn = int(name[1:].partition("_")[0]) if kind == "leaf" else -1
        return self.asked >= (turn + 1) * self.agents


class Workers(Bursts):
    """The root starts `agents` once; each calls `tools` commands, one after another."""

    def __init__(self, agents: int, tools: int) -> None:
        super().__init__(agents, 1)
        self.tools = tools

    def leaf(self, name: str, number: int) -> list[Call]:
        return [("exec_command", {"cmd": "true"})] if number < self.tools else []

    def may_answer(self, name: str, kind: str) -> bool:
        return True


class Writers(Workers):
    """Each of the agents writes `tools` files of its own, in one command."""

    def leaf(self, name: str, number: int) -> list[Call]:
        command = f"for n in $(seq {self.tools}); do echo {name} > {name}-$n; done"
        return [("exec_command", {"cmd": command})] if number == 0 else []


class McpCallers(Workers):
    """The same, with calls of an MCP server's tool; each call has a name of its own."""

    def leaf(self, name: str, number: int) -> list[Call]:
        call = ("mcp__bench__count", {"call": f"{name}-{number}"})
        return [call] if number < self.tools else []


class WorkersAtRest(Workers):
    """The same, but the request that follows an agent's last command is never answered. The root's
    model takes `thinks_ms` for its first answer.
    """

    def may_answer(self, name: str, kind: str) -> bool:
        return name not in self.at_rest

    def __init__(self, agents: int, tools: int, thinks_ms: int = 0) -> None:
        super().__init__(agents, tools)
        self.at_rest: set[str] = set()
        self.thinks_s = thinks_ms / 1000

    def leaf(self, name: str, number: int) -> list[Call]:
        if number >= self.tools:
            self.at_rest.add(name)
        return super().leaf(name, number)


class Cycles(Story):
    """The root starts heads one after another; each starts `leaves`, `side` at a time, and ends.

    So no conversation grows long, however many agents come and go.
    """

    def __init__(self, heads: int, leaves: int, side: int) -> None:
        self.heads, self.leaves, self.side = heads, leaves, side

    def root(self, name: str, number: int) -> list[Call]:
        turn, is_wait = divmod(number, 2)
        if turn == self.heads:
            return []
        return [wait([f"h{turn}"])] if is_wait else [spawn(f"h{turn}", "head")]

    def head(self, name: str, number: int) -> list[Call]:
        turn, is_wait = divmod(number, 2)
        begin = turn * self.side
        names = [f"l{index}" for index in range(begin, min(begin + self.side, self.leaves))]
        if not names:
            return []
        return [wait(names)] if is_wait else [spawn(one, "leaf") for one in names]

    def leaf(self, name: str, number: int) -> list[Call]:
        return []

    def may_answer(self, name: str, kind: str) -> bool:
        return True


class MailWriters(Story):
    """The root starts `agents`, whose own requests are never answered: they write mails."""

    def __init__(self, agents: int) -> None:
        self.agents = agents

    def root(self, name: str, number: int) -> list[Call]:
        names = [f"p{index}" for index in range(self.agents)]
        steps = [[spawn(one, "leaf") for one in names], [wait(names)]]
        return steps[number] if number < len(steps) else []

    head = root

    def leaf(self, name: str, number: int) -> list[Call]:
        return []

    def may_answer(self, name: str, kind: str) -> bool:
        return kind != "leaf"


STORIES: dict[str, Callable[..., Any]] = {
    "bursts": Bursts, "workers": Workers, "writers": Writers, "workers_at_rest": WorkersAtRest,
    "cycles": Cycles, "letters": MailWriters, "mcp_callers": McpCallers,
}  # fmt: skip


class TeamServer(BenchModelServer):
    """Answers each conversation by its part."""

    def __init__(self, story: Any) -> None:
        super().__init__("team", 0, "")
        self.story = story
        self.parts: dict[bytes, tuple[str, str]] = {}  # conversation → kind, name
        self.gate = asyncio.Event()
        self.asking, self.pausing = 0, False  # leaves that are not answered yet; nor will they be
        self.wanted, self.is_over = 0, False  # so many shall ask at once; no leaf will come

    async def answer(self, began: float, body: bytes, writer: asyncio.StreamWriter) -> None:
        if body.startswith(_PAUSE):
            await self.pause(json.loads(body)["pause"])
            writer.write(HEAD + chunked(json.dumps(self.pausing).encode()) + b"0\r\n\r\n")
            return
        at = body.find(b'"prompt_cache_key":"')
        who = body[at + 20 : at + 56] if at >= 0 else b""
        number = self.requests_of.get(who, 0)
        self.requests_of[who] = number + 1
        if who not in self.parts:
            self.parts[who] = part_of(body)
        kind, name = self.parts[who]
        wanted: list[Call] = getattr(self.story, kind)(name, number)
        if kind == "head" and self.wanted and len(wanted) == self.wanted:
            self.pausing = True  # from a batch's beginning on: of one under way some may have ended
        seen = self.tell(name, kind, number, began, len(body))
        if kind == "root" and number == 0:
            await asyncio.sleep(self.story.thinks_s)
        self.asking += kind == "leaf"
        self.is_over = self.is_over or (kind == "root" and not wanted)
        self.wake_waiting()
        while kind == "leaf" and (self.pausing or not self.story.may_answer(name, kind)):
            await self.gate.wait()
        self.asking -= kind == "leaf"
        reply = calls(number, wanted) if wanted else message(number, f"{name} is done")
        writer.write(HEAD + chunked(reply) + b"0\r\n\r\n")
        if not wanted:
            self.requests_of.pop(who)
            self.parts.pop(who)
        seen["answered"] = time.monotonic()

    async def pause(self, leaves: int) -> None:
        """Answer no leaf once so many ask; it goes on if so many never do, or 0 are wanted."""
        self.wanted, is_batched = leaves, getattr(self.story, "leaves", 0) > 0
        self.pausing = leaves > 0 and not is_batched
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while self.asking < leaves and not self.is_over:
                    await self.gate.wait()
        self.pausing = 0 < leaves <= self.asking
        self.wanted = 0
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """Whoever waits looks again."""
        self.gate.set()
        self.gate = asyncio.Event()

    def tell(self, name: str, kind: str, number: int, began: float, size: int) -> dict[str, Any]:
        """Note the request; the caller says when it is answered."""
        one = {
            "name": name, "kind": kind, "number": number, "bytes": size,
            "began": began, "answered": math.inf,
        }  # fmt: skip
        if number < 2 or kind == "root":
            self.seen.append(one)
        return one


def part_of(body: bytes) -> tuple[str, str]:
    """Kind and name of the one who asks, from the words of its task."""
    for kind in _KINDS:
        at = body.find(b"bench:" + kind.encode() + b" ")
        if at >= 0:
            words = body[at : at + 100]
            return kind, words.partition(b"<")[2].partition(b">")[0].decode()
    return "leaf", "stranger"


async def main() -> None:
    port_file, story = Path(sys.argv[1]), sys.argv[2]
    server = TeamServer(STORIES[story](*map(int, sys.argv[3].split(","))))
    await serve_until_told(server, port_file)


if __name__ == "__main__":
    asyncio.run(main())
