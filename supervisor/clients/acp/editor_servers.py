"""MCP servers that an editor gives to a session, as the file that a run reads them from."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import msgspec
from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.private_files import write_own_file

EditorServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
_MOST_SERVERS = 64
_NAME_CHARS = 64
_OTHER_THAN_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def encode_servers(servers: Sequence[EditorServer]) -> bytes:
    """The servers in the form of `.mcp.json`, values taken literally; b"" for none.

    Raises UsageError for a transport that swarm has not, and names the server.
    """
    if not servers:
        return b""
    if len(servers) > _MOST_SERVERS:
        raise UsageError(f"{len(servers)} MCP servers; at most {_MOST_SERVERS} can be used")
    tables: dict[str, dict[str, object]] = {}
    for server in servers:
        name = _server_name(server.name, tables)
        tables[name] = _server_table(server) | {"expand_variables": False}
    return msgspec.json.encode({"mcpServers": tables})


def _server_table(server: EditorServer) -> dict[str, object]:
    match server:
        case McpServerStdio(command=command, args=args, env=env):
            variables = {one.name: one.value for one in env}
            return {"command": command, "args": args, "env": variables}
        case HttpMcpServer(url=url, headers=headers):
            return {"type": "http", "url": url, "headers": {one.name: one.value for one in headers}}
        case SseMcpServer() | AcpMcpServer():
            raise UsageError(
                f"the MCP server {server.name[:100]!r} speaks {server.type}; swarm speaks "
                "stdio and http with servers"
            )


def _server_name(shown: str, taken: dict[str, dict[str, object]]) -> str:
    """A name that a configuration may have, and that is not taken: editors have free texts."""
    name = _OTHER_THAN_NAME.sub("_", shown)[:_NAME_CHARS].strip("_") or "server"
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


@contextmanager
def server_options(servers: bytes) -> Iterator[tuple[str, ...]]:
    """The options of `swarm run` and `resume` that give a run these servers.

    They name a file that only this user can read; it is deleted at the end of the block.
    """
    if not servers:
        yield ()
        return
    with TemporaryDirectory(prefix="swarm-acp-") as folder:
        path = Path(folder, "servers.json")
        write_own_file(path, servers)
        yield (f"--mcp-config={path}",)
