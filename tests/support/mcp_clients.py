"""Clients of `swarm mcp-server`, with the official SDK, in a thread of its own event loop."""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import trio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from .forked_programs import PipedCommand, Setting, forked_python

LIMIT_S = 90
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {},
               "clientInfo": {"name": "raw", "version": "1"}},
}  # fmt: skip
SWARM = str(Path(sys.executable).parent / "swarm")


async def under_asyncio(body: Callable[[], Awaitable[None]]) -> None:
    """Run a client under asyncio, bounded."""

    async def bounded() -> None:
        with anyio.fail_after(LIMIT_S):
            await body()

    await trio.to_thread.run_sync(lambda: anyio.run(bounded, backend="asyncio"))


@asynccontextmanager
async def stdio_client_of(rig: Any, *words: str, **options: Any) -> AsyncIterator[ClientSession]:
    """A session with a server that works in the rig's workspace; its stderr is kept in a file."""
    arguments = [SWARM, "mcp-server", "-C", str(rig.work), *words]
    server = StdioServerParameters(command=forked_python(), args=arguments, env=rig.environment)
    with (rig.folder / "stderr").open("a") as errors:
        async with (
            stdio_client(server, errlog=errors) as streams,
            ClientSession(*streams, **options) as session,
        ):
            await session.initialize()
            yield session


def text_of_result(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


async def poll(found: Callable[[], Any]) -> Any:
    """The first true value; the caller's deadline bounds it."""
    while not (value := found()):  # noqa: ASYNC110 - journals and processes tell nobody
        await anyio.sleep(0.05)
    return value


@asynccontextmanager
async def http_server_of(
    rig: Any, *words: str, lines: int = 2
) -> AsyncIterator[tuple[str, str, anyio.abc.Process]]:
    """A server on a free port: its address, its token, its process."""
    where = ["--http", "127.0.0.1:0", "-C", str(rig.work)]
    arguments = [forked_python(), SWARM, "mcp-server", *where, *words]
    async with await anyio.open_process(arguments, env=rig.environment, stdout=None) as process:
        assert process.stderr is not None
        said = b""
        while said.count(b"\n") < lines:
            said += await process.stderr.receive()
        said_lines = said.decode().splitlines()
        token = said_lines[0].removeprefix("swarm: token: ")
        try:
            yield said_lines[-1].rpartition(" ")[2], token, process
        finally:
            with suppress(ProcessLookupError):  # the test ended it
                process.terminate()
            await process.wait()


class RawClient:
    """A client that writes bytes."""

    def __init__(self, process: PipedCommand) -> None:
        self.process = process
        self._rest = b""

    async def say(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            await self.process.stdin.send_all(data + b"\n")

    async def hear(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            self._rest += await self.process.stdout.receive_some(1 << 20)
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)


async def raw_client(rig: Any, *words: str) -> RawClient:
    argv = [SWARM, "mcp-server", "-C", str(rig.work), *words]
    return RawClient(rig.adopt(PipedCommand(argv, Setting(rig.environment, rig.work))))
