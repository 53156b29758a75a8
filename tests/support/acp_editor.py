"""Editors for `swarm acp`: the client of the protocol's SDK, and bare lines."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import anyio
import trio
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    CreateTerminalResponse,
    DeniedOutcome,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
)

from .forked_programs import PipedCommand, Setting, forked_python

LIMIT_S = 240  # much less without a load; only a hang takes longer
PROGRAM = str(Path(sys.executable).parent / "swarm")


class Editor:
    """A client of the SDK that keeps what it was shown, and gives one answer to every question."""

    def __init__(self, answer: str | None = "once") -> None:
        self.answer = answer
        self.is_working = asyncio.Event()  # a tool call has begun
        self.updates: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.terminals: list[list[str]] = []  # the commands that were started in one
        self.released: list[str] = []
        self._changed = asyncio.Event()

    async def has_changed(self) -> None:
        """Wait for the next update."""
        self._changed.clear()
        await self._changed.wait()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(by_alias=True, exclude_none=True))
        self._changed.set()
        if self.updates[-1]["sessionUpdate"] == "tool_call":
            self.is_working.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append(tool_call.title)
        if self.answer is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        assert self.answer in {option.option_id for option in options}
        outcome = AllowedOutcome(outcome="selected", option_id=self.answer)
        return RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id, path, line=None, limit=None, **_):
        return ReadTextFileResponse(content=f"not saved yet: {path}")

    async def create_terminal(self, session_id, command, args=None, **_):
        self.terminals.append([command, *args])
        return CreateTerminalResponse(terminal_id=f"terminal-{len(self.terminals)}")

    async def release_terminal(self, session_id, terminal_id, **_):
        self.released.append(terminal_id)

    def on_connect(self, conn: Any) -> None:
        pass

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.updates if one["sessionUpdate"] == kind]

    @property
    def text(self) -> str:
        return "".join(one["content"]["text"] for one in self.of("agent_message_chunk"))


def use(rig, *turns: dict[str, Any]) -> None:
    (rig.home / "config.toml").write_text(f'model_provider = "{rig.script(*turns)}"\n')


def command(script: str) -> dict[str, Any]:
    return {
        "agent": "/root",
        "calls": [{"name": "exec_command", "arguments": {"cmd": script}}],
    }


def said(text: str, agent: str = "/root") -> dict[str, Any]:
    return {"agent": agent, "text": text}


@asynccontextmanager
async def connected(rig, editor: Editor) -> AsyncIterator[Any]:
    """A connection of the SDK to `swarm acp`; the process ends with the block."""
    async with acp.spawn_agent_process(
        editor, forked_python(), PROGRAM, "acp", env=rig.environment, cwd=str(rig.work)
    ) as (connection, _):
        capabilities = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=True), terminal=True
        )
        await connection.initialize(protocol_version=1, client_capabilities=capabilities)
        yield connection


async def play(body: Callable[[], Awaitable[None]]) -> None:
    """Run an asyncio client in a thread."""

    async def bounded() -> None:
        with anyio.fail_after(LIMIT_S):
            await body()

    await trio.to_thread.run_sync(lambda: anyio.run(bounded, backend="asyncio"))


class Lines:
    """`swarm acp` and its lines, one JSON value each."""

    def __init__(self, process: PipedCommand) -> None:
        self.process, self._rest = process, b""

    async def send(self, *lines: bytes) -> None:
        await self.process.stdin.send_all(b"".join(line + b"\n" for line in lines))

    async def ask(self, number: int, method: str, **params: object) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        await self.send(json.dumps(request).encode())
        return await self.reply(number)

    async def reply(self, number: int | None) -> dict[str, Any]:
        while True:
            message = json.loads(await self._line())
            if "method" not in message and message["id"] == number:
                return message

    async def _line(self) -> bytes:
        while b"\n" not in self._rest:
            part = await self.process.stdout.receive_some()
            assert part, "it ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line


async def start(rig) -> Lines:
    process = PipedCommand([PROGRAM, "acp"], Setting(rig.environment, rig.work))
    return Lines(rig.adopt(process))
