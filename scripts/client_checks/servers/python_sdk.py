"""A server of the Python SDK, of its first line or its second, as its README writes one.

Arguments: `http`, or the file to write at the end; and the folder of the SDK, if it is not
the environment's own. Over HTTP it listens on descriptor LISTEN_FD.
"""

# ruff: noqa: ANN201 - tools are what a user would write
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

if sys.argv[2:]:
    sys.path.insert(0, sys.argv[2])

from importlib.metadata import version

import anyio
from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ToolError

PLACE = sys.argv[1]
RESTART = 75
LONG = "\n".join(f"line {line} of a long text, which goes on and on" for line in range(4000))
server = MCPServer("python")
must_restart = False


class Node(BaseModel):
    """A part of a tree."""

    name: str
    children: list["Node"] = []


class Size(BaseModel):
    """What was measured."""

    width: float
    unit: str


@server.tool()
def nothing():
    """No arguments"""
    return f"nothing needed, says {version('mcp')}"


@server.tool()
def maybe(note: str | None = None) -> str:
    """All optional"""
    return str({"note": note} if note else {})


@server.tool()
def odd(
    pair: tuple[int, str],
    tree: Node,
    either: int | list[str] | None = None,
    more: dict[str, Any] | None = None,
    bare: list = [],  # noqa: B006 - people write that
) -> str:
    """A schema that few write"""
    return f"{pair} {tree.model_dump_json()} {either} {more} {bare}"


@server.tool()
def measure() -> Size:
    """Structured"""
    return Size(width=3, unit="m")


@server.tool()
def fails() -> str:
    """Always an error"""
    raise ToolError("it is out of paper")


@server.tool()
def long() -> str:
    """A long text"""
    return LONG


@server.tool()
async def slow(ctx: Context) -> str:
    """Tells how far it is"""
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3)
    await anyio.sleep(1)  # over HTTP steps have a stream of their own, which an answer may overtake
    return "all steps"


@server.tool()
def leave() -> str:
    """Ends the server"""
    global must_restart
    if PLACE != "http":
        os._exit(1)
    must_restart = True
    return "the server starts anew"


def serve_http() -> None:
    """After `leave` was answered it ends, and whoever started it starts it again."""
    import uvicorn

    inner = server.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await inner(scope, receive, send)
        if must_restart:
            os._exit(RESTART)

    listening = socket.socket(fileno=int(os.environ["LISTEN_FD"]))
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if PLACE == "http":
    serve_http()
else:
    server.run()
    time.sleep(0.1)
    Path(PLACE).write_text("saved")
