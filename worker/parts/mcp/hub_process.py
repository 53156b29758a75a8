"""The hub's process: the only one that is connected to MCP servers and holds their credentials.

It is a mailbox client of the supervisor, which passes agents' requests on and knows which agent
sent each. Each request is a task; a cancelled one is told to its server.
"""

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import assert_never, cast

import msgspec
import trio

from swarm.mailbox.base.bounded_formats import decode_json
from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello
from swarm.mailbox.protocol.hub import (
    AnyHubEvent,
    AskServers,
    CallProgressed,
    CallTool,
    CancelCall,
    ListTools,
    ModelAnswered,
    PersonAnswered,
    ReleaseAgent,
    ToolCalled,
    ToolsListed,
    decode_hub_op,
    encode_hub_event,
)
from swarm.mailbox.protocol.mcp import McpFailure, McpOutcome, McpServer, McpTool, McpTools
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.spec import HubSpec
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION

from ...base.lifeline import watch_lifeline
from ...exec.launcher_client import LauncherLink, is_launcher_loss, open_launcher
from .call_progress import ProgressLimit
from .handshake import Handshakes
from .mcp_tool_names import ToolIdentity, name_tools
from .person_questions import PersonQuestions
from .server_logs import ServerLogs
from .server_pool import OpenServer, PooledCall, ServerPool
from .server_questions import ask_servers
from .server_session import (
    LiveServer,
    ServerFailed,
    SessionContext,
    open_http_session,
    open_stdio_session,
)
from .tool_ranking import rank_tools
from .tool_schema import ANY_OBJECT

HEARTBEAT_S = 2.0
MAX_FOUND = 50  # tools by one search; what the agent may not call is taken out afterwards
MAX_LIST_BYTES = 512 << 10  # of descriptions and schemas in one list
MAX_RUNNING = 512  # requests at once; a further one is refused
_GOODBYE_LIMIT_S = 2.0
_LAUNCHER_GONE = (
    "the process that starts MCP servers (the hub's launcher) has died or did not answer, and the "
    "servers on this machine with it; the hub ends, too, and is started again"
)


def run_hub(
    spec: HubSpec, credentials: dict[str, str], launcher: LauncherLink, lifeline_fd: int | None
) -> int:
    """Run the hub until the supervisor shuts it down; return the exit code.

    Args:
        credentials: Values by key, as received through the pipe. Never from `os.environ`.
        launcher: The hub's end of its launcher's socket.
        lifeline_fd: The reading end of the lifeline pipe; None if the hub needs none.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor handles Ctrl-C
    for name in ("mcp", "httpx2", "httpcore2", "client"):  # they would log a server's own texts
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return trio.run(_run, spec, credentials, launcher, lifeline_fd)
    except BaseException as error:
        if not is_launcher_loss(error):
            raise
        sys.stderr.write(f"{_LAUNCHER_GONE}\n")  # a known cause, no bug
        sys.stderr.flush()
        return 1


async def _run(
    spec: HubSpec, credentials: dict[str, str], link: LauncherLink, lifeline_fd: int | None
) -> int:
    async with trio.open_nursery() as nursery:
        if lifeline_fd is not None:
            nursery.start_soon(watch_lifeline, lifeline_fd)
        async with (
            open_dealer(spec.endpoint, spec.identity, epoch=spec.epoch) as supervisor,
            open_launcher(link) as launcher,
            trio.open_nursery() as living,
        ):
            living.start_soon(launcher.fail_when_gone, _LAUNCHER_GONE)
            logs, questions = ServerLogs(), PersonQuestions(supervisor)
            opener = server_opener(
                SessionContext(spec, credentials, launcher, logs, questions, Handshakes())
            )
            await HubProcess(spec, supervisor, opener, logs, questions).run()
            living.cancel_scope.cancel()  # from here on the launcher's end is expected
        nursery.cancel_scope.cancel()
    return 0


def server_opener(context: SessionContext) -> OpenServer:
    """How this hub connects to a server, by the transport that its table names."""

    @asynccontextmanager
    async def open_server(server: McpServer, label: str) -> AsyncIterator[LiveServer]:
        opening = (
            open_http_session(context, server)
            if server.url
            else open_stdio_session(context, server, label=label)
        )
        async with opening as live:
            yield live

    return open_server


class HubProcess:
    """A hub from its Hello to its Goodbye.

    Args:
        supervisor: The mailbox to the supervisor; the caller closes it.
    """

    def __init__(
        self,
        spec: HubSpec,
        supervisor: Mailbox,
        open_server: OpenServer,
        logs: ServerLogs,
        questions: PersonQuestions,
    ) -> None:
        self._spec, self._supervisor, self._open = spec, supervisor, open_server
        self._logs, self._questions = logs, questions
        self._running: dict[int, trio.CancelScope] = {}
        self._work = trio.CancelScope()
        self._grace_s = _GOODBYE_LIMIT_S
        self._answered = 0

    async def run(self) -> None:
        """Serve until a Shutdown; then no server is left."""
        hello = Hello(
            secret=self._spec.secret,
            pid=os.getpid(),
            protocol_version=PROTOCOL_VERSION,
            kind="hub",
        )
        await self._post(hello)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_heartbeats)
            nursery.start_soon(self._logs.send_all, self._post)
            with self._work:
                async with trio.open_nursery() as working:
                    pool = ServerPool(self._spec.servers, self._open, working)
                    working.start_soon(pool.stop_idle)
                    await self._handle_ops(pool, working)
            nursery.cancel_scope.cancel()
        with trio.move_on_after(self._grace_s):
            for piece in self._logs.take():
                await self._post(piece)
            await self._post(Goodbye())
            await self._supervisor.flush()

    async def _handle_ops(self, pool: ServerPool, nursery: trio.Nursery) -> None:
        while True:
            message = await self._supervisor.receive()
            self._supervisor.acknowledge(message)
            try:
                order = decode_hub_op(message.body)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # an op of a newer supervisor
            match order:
                case Shutdown():
                    self._grace_s = min(order.grace_s, _GOODBYE_LIMIT_S)
                    self._work.cancel()
                case ListTools():
                    nursery.start_soon(self._serve_list, pool, order)
                case CallTool():
                    nursery.start_soon(self._serve_call, pool, order)
                case AskServers():
                    nursery.start_soon(self._serve_question, pool, order)
                case CancelCall(request=request):
                    if (scope := self._running.get(request)) is not None:
                        scope.cancel()
                case ReleaseAgent(agent=agent):
                    pool.release_agent(agent)
                case PersonAnswered() | ModelAnswered():
                    self._questions.take_answer(order)
                case _:
                    assert_never(order)

    async def _serve_list(self, pool: ServerPool, order: ListTools) -> None:
        found: list[McpTool] = []
        failures: list[McpFailure] = []
        find = pool.known_tools if order.query or order.again else pool.list_tools

        async def list_one(name: str) -> None:
            try:
                found.extend(await find(name, order.agent))
            except ServerFailed as error:
                failures.append(McpFailure(server=name, reason=str(error)))

        async with trio.open_nursery() as nursery:
            for name in order.servers:
                nursery.start_soon(list_one, name)
        named = with_names(found)
        if order.query:
            named = await trio.to_thread.run_sync(_search, order.query, named)
        tools = McpTools(
            tools=keep_small(named),
            failures=tuple(failures),
            resources=pool.with_resources(order.servers, order.agent),
        )
        await self._post(ToolsListed(request=order.request, tools=tools))

    async def _serve_call(self, pool: ServerPool, order: CallTool) -> None:
        def tell(line: str) -> None:
            told = CallProgressed(request=order.request, text=line)
            self._supervisor.send_transient(encode_hub_event(told))

        async def call() -> McpOutcome:
            arguments = cast("dict[str, object]", decode_json(order.arguments))
            use = PooledCall(order.tool, arguments, ProgressLimit(tell).note, order.request)
            return await pool.call(order.server, order.agent, use)

        await self._serve(order.request, call)

    async def _serve_question(self, pool: ServerPool, order: AskServers) -> None:
        await self._serve(order.request, partial(ask_servers, pool, order))

    async def _serve(self, request: int, work: Callable[[], Awaitable[McpOutcome]]) -> None:
        outcome = McpOutcome(state="interrupted", message="the call was cancelled")
        if len(self._running) >= MAX_RUNNING:
            text = f"{MAX_RUNNING} calls of MCP tools run already; try again later"
            outcome = McpOutcome(state="failed", message=text)
        else:
            with trio.CancelScope() as scope:
                self._running[request] = scope
                try:
                    outcome = await work()
                finally:
                    del self._running[request]
        self._answered += 1
        for piece in self._logs.take():  # what the server wrote of this call comes before its end
            await self._post(piece)
        await self._post(ToolCalled(request=request, outcome=outcome))

    async def _send_heartbeats(self) -> None:
        while True:
            beat = Heartbeat(progress=self._answered, busy=bool(self._running))
            self._supervisor.send_transient(encode_hub_event(beat))
            await trio.sleep(HEARTBEAT_S)

    async def _post(self, event: AnyHubEvent) -> None:
        await self._supervisor.post(encode_hub_event(event))


def _search(query: str, tools: tuple[McpTool, ...]) -> tuple[McpTool, ...]:
    return rank_tools(query, tools, limit=MAX_FOUND)


def keep_small(tools: tuple[McpTool, ...]) -> tuple[McpTool, ...]:
    """The tools, so that one message can carry them: beyond a size, without their schemas."""
    room, kept = MAX_LIST_BYTES, list[McpTool]()
    for one in tools:
        room -= len(one.parameters) + len(one.description.encode())
        short = msgspec.structs.replace(one, parameters=ANY_OBJECT, description="")
        kept.append(one if room >= 0 else short)
    return tuple(kept)


def with_names(tools: list[McpTool]) -> tuple[McpTool, ...]:
    """The tools with their names for models, in the order of their raw names; no duplicates."""
    names = name_tools([ToolIdentity(one.server, one.tool) for one in tools])
    known = {ToolIdentity(one.server, one.tool): one for one in reversed(tools)}
    return tuple(
        msgspec.structs.replace(known[identity], name=name) for identity, name in names.items()
    )
