"""The process of `swarm mcp-server`: one client on stdin and stdout, or any number over HTTP."""

import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import anyio
import uvicorn
from starlette.applications import Starlette

from swarm.mailbox.base.errors import SwarmError

from .http_access import TokenAccess, security_settings
from .http_address import ListenAddress
from .mcp_service import McpService
from .message_lines import open_messages, take_standard_streams
from .served_runs import ServedRuns

_MAX_BODY_BYTES = 4 << 20
_MOST_SESSIONS, _MOST_CONNECTIONS = 64, 128
_GRACE_S = 2
_ON_TERMINAL = (
    "swarm: waiting for the messages of an MCP client, which starts this command itself; "
    "--http serves clients that do not; Ctrl-C ends it\n"
)
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve_stdio(runs: ServedRuns, *, with_codex: bool) -> NoReturn:
    """Serve until the client closes stdin, or until a signal. Does not return: a thread may be
    waiting in a read of stdin for ever.
    """
    _silence_libraries()
    if sys.stdin.isatty():
        sys.stderr.write(_ON_TERMINAL)
        sys.stderr.flush()
    anyio.run(_serve_lines, runs, with_codex, backend="asyncio")
    sys.stderr.flush()
    os._exit(0)


async def _serve_lines(runs: ServedRuns, with_codex: bool) -> None:  # noqa: FBT001
    server = McpService(runs, with_codex=with_codex).build()
    try:
        async with _until_signal() as scope, open_messages(take_standard_streams()) as streams:
            await server.run(*streams, server.create_initialization_options())
            scope.cancel()
    finally:
        await runs.close()


def serve_http(runs: ServedRuns, address: ListenAddress, token: str, *, with_codex: bool) -> int:
    """Serve until a signal. Says on stderr where, once it listens. Raises SwarmError."""
    _silence_libraries()
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise SwarmError(
            f"cannot listen at {address.name}: {error.strerror}; choose another port"
        ) from error
    with listener:
        bound = ListenAddress(host=address.host, port=listener.getsockname()[1])
        app = _http_app(runs, bound, token, with_codex=with_codex)
        sys.stderr.write(f"swarm: MCP server at http://{bound.name}/mcp\n")
        sys.stderr.flush()
        anyio.run(_serve_connections, runs, app, listener, backend="asyncio")
    return 0


def _http_app(
    runs: ServedRuns, address: ListenAddress, token: str, *, with_codex: bool
) -> TokenAccess:
    server = McpService(runs, with_codex=with_codex).build()
    app: Starlette = server.streamable_http_app(
        host=address.host,
        max_request_body_size=_MAX_BODY_BYTES,
        max_sessions=_MOST_SESSIONS,
        transport_security=security_settings(address),
    )
    return TokenAccess(app, token)


async def _serve_connections(runs: ServedRuns, app: TokenAccess, listener: socket.socket) -> None:
    settings = uvicorn.Config(
        app, log_config=None, access_log=False, limit_concurrency=_MOST_CONNECTIONS, ws="none",
        timeout_graceful_shutdown=_GRACE_S, server_header=False,
    )  # fmt: skip
    server = uvicorn.Server(settings)

    async def stop_on_signal() -> None:
        with anyio.open_signal_receiver(*_STOP_SIGNALS) as signals:
            async for _ in signals:
                server.should_exit = True

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_on_signal)
            await server.serve(sockets=[listener])
            tasks.cancel_scope.cancel()
    finally:
        await runs.close()


@asynccontextmanager
async def _until_signal() -> AsyncIterator[anyio.CancelScope]:
    """A block that a signal cancels. Leave it by cancelling the scope."""

    async def wait(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(*_STOP_SIGNALS) as signals:
            async for _ in signals:
                scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, tasks.cancel_scope)
        yield tasks.cancel_scope


def _silence_libraries() -> None:
    """Errors are answered to the client; stderr is for people."""
    logging.getLogger().setLevel(logging.CRITICAL)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
