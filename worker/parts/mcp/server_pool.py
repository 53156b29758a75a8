"""The connections of a run: each server once, started at its first use, stopped when idle.

A server that has ended starts again with its next use, after a growing pause. A call that ran when
its server ended is interrupted; it is repeated once if the tool says that this does no harm.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar, cast

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.mcp import McpOutcome, McpQuestion, McpServer, McpTool

from .call_progress import OnProgress
from .running_call import RunningCall
from .server_session import CallInterrupted, LiveServer, ServerFailed, SessionForgotten

MAX_FAILURES = 5  # in a row; then it is not started again for a while
_FIRST_PAUSE_S, _PAUSE_GROWTH, _MAX_PAUSE_S = 0.2, 3.0, 30.0
_LOOK_AGAIN_S = 60.0

_Answer = TypeVar("_Answer")
OpenServer = Callable[[McpServer, str], AbstractAsyncContextManager[LiveServer]]
"""Connects to a server; the text names this connection. Raises SwarmError."""


class PooledCall(NamedTuple):
    """One call of a tool. `on_progress` gets lines about it while it runs."""

    tool: str
    arguments: Mapping[str, object]
    on_progress: OnProgress
    request: int = 0  # the supervisor's number of it


class PooledServer:
    """One server, shared by all agents, or one agent's own."""

    def __init__(self, server: McpServer, label: str, open_server: OpenServer) -> None:
        self.server, self.label, self._open = server, label, open_server
        self._live: LiveServer | None = None
        self._last_tools: tuple[McpTool, ...] = ()  # when it was last connected
        self._starting = trio.Lock()
        self._users = 0
        self._used_at = trio.current_time()
        self._failures = 0
        self._blocked_until = 0.0
        self._reason = ""
        self._scope = trio.CancelScope()
        self._over = trio.Event()  # set: nothing is left of the connection before
        self._over.set()
        self.starts = 0
        self.has_resources = False  # when it was last connected

    async def connect(self, nursery: trio.Nursery) -> LiveServer:
        """The connection, made now if there is none. Raises ServerFailed."""
        async with self._starting:
            if self._live is None:
                await self._start(nursery)
            assert self._live is not None
            return self._live

    async def _start(self, nursery: trio.Nursery) -> None:
        now = trio.current_time()
        if self._failures >= MAX_FAILURES and now < self._blocked_until:
            raise ServerFailed(
                f"it failed {self._failures} times in a row and is left alone for "
                f"{self._blocked_until - now:.0f} s more: {self._reason}"
            )
        if now < self._blocked_until:
            await trio.sleep(self._blocked_until - now)
        self.starts += 1
        limit_s = self.server.startup_timeout_s
        try:
            with trio.fail_after(limit_s):
                await self._over.wait()
                await nursery.start(self._run)
        except trio.TooSlowError:
            self._note_failure(f"it was not ready within {limit_s:g} s (startup_timeout_sec)")
            raise ServerFailed(self._reason) from None
        except ServerFailed as error:
            self._note_failure(str(error))
            raise

    async def _run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the connection until it ends or is stopped. Raises ServerFailed before then."""
        made: LiveServer | None = None
        self._over = trio.Event()
        try:
            with trio.CancelScope() as self._scope:
                async with self._open(self.server, self.label) as made:
                    self._live = made
                    self._last_tools, self.has_resources = made.tools, made.has_resources
                    task_status.started()
                    self._note_end(made, await made.wait_ended())
        except (Exception, BaseExceptionGroup) as error:
            failed = as_server_failure(error)
            if made is None:
                raise failed from error
            self._note_end(made, str(failed))
        finally:
            self._live = None
            self._over.set()

    def _note_end(self, live: LiveServer, reason: str) -> None:
        """The connection is of no use any more; the first who says so counts."""
        if self._live is live:
            self._live = None
            self._note_failure(reason)

    def abandon(self, live: LiveServer, reason: str) -> None:
        """A call has found the connection broken: the next use starts another."""
        if self._live is live:
            self._note_end(live, reason)
            self._scope.cancel()

    def _note_failure(self, reason: str) -> None:
        pause = min(_FIRST_PAUSE_S * _PAUSE_GROWTH**self._failures, _MAX_PAUSE_S)
        self._failures += 1
        if self._failures >= MAX_FAILURES:
            pause = _LOOK_AGAIN_S
        self._reason, self._blocked_until = reason, trio.current_time() + pause

    async def known_tools(self) -> tuple[McpTool, ...]:
        """The tools that it has, or had when it was last connected. Raises ServerFailed."""
        if self._live is not None:
            self._last_tools = await self._live.current_tools()
        return self._last_tools

    def note_success(self) -> None:
        """A call was answered: earlier failures count no more."""
        self._failures = 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """It is not stopped as idle within the block."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used_at = trio.current_time()

    def stop_if_idle(self) -> None:
        unused_s = trio.current_time() - self._used_at
        if self._live is not None and not self._users and unused_s > self.server.idle_s:
            self.stop()

    def stop(self) -> None:
        """End it, with its whole process tree; its next use starts it again."""
        self._live = None
        self._scope.cancel()


class ServerPool:
    """All servers of the run."""

    def __init__(
        self, servers: tuple[McpServer, ...], open_server: OpenServer, nursery: trio.Nursery
    ) -> None:
        self._servers = {one.name: one for one in servers}
        self._open, self._nursery = open_server, nursery
        self._pooled: dict[tuple[str, str], PooledServer] = {}  # by server and, if its own, agent
        self._numbers = count(1)

    async def stop_idle(self) -> None:
        """Stop servers that nobody used for their idle time; loops for ever."""
        while True:
            await trio.sleep(1.0)
            for one in tuple(self._pooled.values()):
                one.stop_if_idle()

    def release_agent(self, agent: str) -> None:
        """End the servers that were started for this agent alone."""
        for key in [key for key in self._pooled if key[1] == agent and agent]:
            self._pooled.pop(key).stop()

    async def list_tools(self, name: str, agent: str) -> tuple[McpTool, ...]:
        """The enabled tools of a server. Raises ServerFailed."""
        return await self._in_session(name, agent, _list_tools)

    async def known_tools(self, name: str, agent: str) -> tuple[McpTool, ...]:
        """The tools as they were last listed; starts nothing that was tried before.

        Raises ServerFailed.
        """
        pooled = self._pooled.get(self._key(name, agent))
        return await self.list_tools(name, agent) if pooled is None else await pooled.known_tools()

    def with_resources(self, names: tuple[str, ...], agent: str) -> tuple[str, ...]:
        """Those of the servers that had resources when they were last connected."""
        found = ((name, self._pooled.get(self._key(name, agent))) for name in names)
        return tuple(name for name, one in found if one is not None and one.has_resources)

    async def ask(self, name: str, agent: str, question: McpQuestion) -> McpOutcome:
        """Ask for resources or prompts; every end but cancellation is an outcome."""
        server = self._servers.get(name)
        limit_s = 0.0 if server is None else server.tool_timeout_s
        try:
            return await self._in_session(name, agent, partial(_ask, question, limit_s))
        except trio.TooSlowError:
            text = f"no answer within {limit_s:g} s (tool_timeout_sec)"
            return McpOutcome(state="timed_out", message=text)
        except ServerFailed as error:
            return McpOutcome(state="failed", message=str(error))

    async def call(self, name: str, agent: str, call: PooledCall) -> McpOutcome:
        """Call a tool; every end but cancellation is an outcome."""
        started = trio.current_time()
        server = self._servers.get(name)
        limit_s = 0.0 if server is None else server.tool_timeout_s
        outcome = McpOutcome(state="failed", message=f"there is no server `{name}`")
        for _ in range(2):
            outcome, may_repeat = await self._call_once(name, agent, call)
            if not may_repeat or trio.current_time() - started > limit_s:
                break
        return outcome

    async def _call_once(self, name: str, agent: str, call: PooledCall) -> tuple[McpOutcome, bool]:
        """The outcome, and whether the call may be repeated."""
        known: McpTool | None = None
        used: tuple[PooledServer, LiveServer] | None = None
        limit_s = self._servers[name].tool_timeout_s if name in self._servers else 0.0
        text = f"no answer within {limit_s:g} s (tool_timeout_sec); the server was told to stop"
        outcome = McpOutcome(state="timed_out", message=text)
        try:
            async with self._used(name, agent) as used:
                pooled, live = used
                tools = await live.current_tools()
                known = next((one for one in tools if one.tool == call.tool), None)
                if known is None:
                    raise ServerFailed(
                        f"the server has no enabled tool `{call.tool}`; `swarm mcp tools {name}` "
                        "lists those that are"
                    )
                running = RunningCall(call.request, call.tool, limit_s=limit_s)
                with running.limit.scope:
                    outcome = await live.call(running, call.arguments, call.on_progress)
                    pooled.note_success()
                return outcome, False
        except CallInterrupted as error:
            if used is not None:
                pooled, live = used
                pooled.abandon(live, str(error))
            repeats = known is not None and known.annotations.idempotent is True
            text = (
                f"{error} while the call ran. It may or may not have had its effect; look before "
                "you repeat it"
            )
            return McpOutcome(state="interrupted", message=text), repeats
        except SessionForgotten as error:  # so the call was not run
            if used is not None:
                pooled, live = used
                pooled.abandon(live, str(error))
            return McpOutcome(state="failed", message=str(error)), True
        except ServerFailed as error:
            return McpOutcome(state="failed", message=str(error)), False

    async def _in_session(
        self, name: str, agent: str, ask: Callable[[PooledServer, LiveServer], Awaitable[_Answer]]
    ) -> _Answer:
        """What the server answers; asked once more, in a new session, if it forgot this one."""
        async with self._used(name, agent) as (pooled, live):
            try:
                return await ask(pooled, live)
            except SessionForgotten as error:
                pooled.abandon(live, str(error))
        async with self._used(name, agent) as (pooled, live):
            return await ask(pooled, live)

    def _key(self, name: str, agent: str) -> tuple[str, str]:
        server = self._servers.get(name)
        return name, agent if server is not None and server.per_agent else ""

    @asynccontextmanager
    async def _used(self, name: str, agent: str) -> AsyncIterator[tuple[PooledServer, LiveServer]]:
        server = self._servers.get(name)
        if server is None:
            raise ServerFailed(f"there is no server `{name}`")
        key = self._key(name, agent)
        pooled = self._pooled.get(key)
        if pooled is None:
            label = f"{name}-{next(self._numbers)}"
            pooled = self._pooled[key] = PooledServer(server, label, self._open)
        with pooled.in_use():
            yield pooled, await pooled.connect(self._nursery)


async def _ask(
    question: McpQuestion, limit_s: float, pooled: PooledServer, live: LiveServer
) -> McpOutcome:
    with trio.fail_after(limit_s):
        outcome = await live.ask(question)
    pooled.note_success()
    return outcome


async def _list_tools(_: PooledServer, live: LiveServer) -> tuple[McpTool, ...]:
    return await live.current_tools()


def as_server_failure(error: BaseException) -> ServerFailed:
    """What a failed connection is to its users. Raises `error` if it is no `Exception`."""
    if isinstance(error, SwarmError):
        return ServerFailed(str(error))
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        known = group.subgroup(SwarmError)
        inner: BaseException = group if known is None else known
        while isinstance(inner, BaseExceptionGroup):
            inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
        if known is not None or isinstance(error, Exception):
            return as_server_failure(inner)
        raise error
    return ServerFailed(f"its connection broke: {type(error).__name__}: {error!s:.300}")
