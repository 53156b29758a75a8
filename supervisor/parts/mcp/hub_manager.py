"""Starts, monitors and restarts the hub, and carries requests to it.

A run without MCP servers never has a hub; a run with some has one from the first request on. When
the hub dies, a listing is asked again of the next one, and a call that was sent is interrupted: it
is never sent twice.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import trio

from swarm.mailbox.base.resting_limit import RestingLimit
from swarm.mailbox.delivery.interfaces import ReceivedMessage
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, Warned
from swarm.mailbox.protocol.hub import (
    AnyHubEvent,
    AnyHubOp,
    AskServers,
    CallProgressed,
    CallTool,
    CancelCall,
    ListTools,
    ModelAnswered,
    ModelAsked,
    PersonAnswered,
    PersonAsked,
    QuestionWithdrawn,
    ReleaseAgent,
    ServerLogged,
    ToolCalled,
    ToolsListed,
    decode_hub_event,
    encode_hub_op,
)
from swarm.mailbox.protocol.mcp import (
    CallMcpTool,
    ListMcpResources,
    ListMcpTools,
    McpFailure,
    McpOutcome,
    McpServer,
    McpTools,
    ReadMcpResource,
)
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.spec import HubSpec

from ...agents.agent_record import Agent
from ...context.agent_places import AgentPlaces, made_or_none
from ...context.run_context import RunContext
from ...context.service_process import ServiceProcess
from ...processes.child_spec import ChildSpec
from ...processes.process_types import Child, ProcessEnd, ProcessStarter, SpawnError
from ...runs.paths import make_private_folder
from .log_files import ServerLogFiles

MARGIN_S = 30.0  # on top of a server's own limits: the hub gives up first
MAX_PROGRESS = 200  # characters of one line
_MAX_STARTS = 4  # of hubs, for one listing
_MAX_QUESTIONS = 256  # of servers, and withdrawals, that nobody has taken yet
_STOP_GRACE_S = 5.0  # of which 70 % are for leaving: a second for servers, and one for the rest
_GOODBYE_S = 1.0
_WHY_CHARS = 300  # of the hub's own last words
_HUB_GONE = (
    "the process that is connected to MCP servers died while the call ran. It may or may not have "
    "had its effect; look before you repeat it"
)
_log = logging.getLogger("swarm.mcp")
_EVERY_TOOL = ListMcpTools()
_Reply = McpTools | McpOutcome
HubQuestion = PersonAsked | ModelAsked | QuestionWithdrawn | None
OnProgress = Callable[[str], None]
"""Takes a line about a running call, of a server and so untrusted; never waits."""


class _OpenRequest:
    """A request that the hub works on."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.on_progress = on_progress
        self.answered = trio.Event()
        self.reply: _Reply | None = None  # None: the hub died

    def answer(self, reply: _Reply | None) -> None:
        self.reply = reply
        self.answered.set()


class OpenCall:
    """A call of an agent that the hub works on. Its limit rests while a person is asked."""

    def __init__(self, agent: Agent, request: CallMcpTool, *, limit_s: float) -> None:
        self.agent, self.server, self.call_id = agent, request.server, request.call_id
        self.limit = RestingLimit(limit_s)
        self.ended = trio.Event()


def _always() -> bool:
    return True


class HubPlace(NamedTuple):
    """Where a hub runs, and for which servers."""

    servers: tuple[McpServer, ...]
    start: Callable[[HubSpec], Awaitable[Child]]  # raises SpawnError
    name: str = ""  # of the machine; "": this one
    prefix: str = "h"  # of its identities
    is_there: Callable[[], bool] = _always  # False: its machine has left


def hub_here(running: RunContext, processes: ProcessStarter) -> HubPlace:
    """The one on this machine, for all servers of the run."""
    settings, keys = running.request.mcp, running.request.mcp_credentials
    start = partial(processes.start, title="mcp hub", keys=keys)
    return HubPlace(settings.servers, start)


class HubManager:
    """Owns the hub's process, if the run needs one.

    `questions` yields what servers ask people and models, and None when the hub has died.
    """

    def __init__(
        self, running: RunContext, place: HubPlace, places: AgentPlaces, *, first_epoch: int
    ) -> None:
        self._run, self._place, self._epoch = running, place, first_epoch
        self._places = places
        child = ChildSpec(
            start=self._start,
            on_end=self._on_end,
            on_crash=self._on_crash,
            on_give_up=self._on_give_up,
            ask_to_stop=self._ask_to_stop,
            grace_s=_STOP_GRACE_S,
        )
        self.process = ServiceProcess(running, "hub", child, prefix=place.prefix)
        self.servers: dict[str, McpServer] = {one.name: one for one in place.servers}
        self._needed, self._changed = trio.Event(), trio.Event()
        self._logs = ServerLogFiles(running.paths.mcp_logs, running.journal.redactor)
        self._failure = ""  # why there will be no hub any more
        self._open: dict[int, _OpenRequest] = {}
        self._calls: dict[int, OpenCall] = {}
        asked: tuple[
            trio.MemorySendChannel[HubQuestion],
            trio.MemoryReceiveChannel[HubQuestion],
        ] = trio.open_memory_channel(_MAX_QUESTIONS)
        self._asked, self.questions = asked
        self._numbers = count(1)

    async def run(self) -> None:
        """Keep a hub running from its first use until cancelled, ended or given up."""
        await self._needed.wait()
        await self.process.loop.run()

    async def _start(self) -> Child:
        self._epoch += 1
        identity = self.process.admit(self._epoch)
        request, paths = self._run.request, self._run.paths
        spec = HubSpec(
            run_id=self._run.run_id,
            epoch=self._epoch,
            endpoint=paths.mailbox_endpoint,
            identity=identity,
            secret=self._run.supervisor_proof(identity),
            servers=self._place.servers,
            environment=request.environment,
            cwd=request.cwd,
            tmp_dir=str(make_private_folder(Path(paths.tmp) / "mcp")),
            short_tmp_dir=made_or_none(self._places.short_tmp.of_servers),
            guarded=self._places.guarded(self._run),
            resources=request.inherited.resources,
            run_began_s=self._run.began_s,
            sandbox_required=request.inherited.sandbox_required,
            logins=str(paths.logins),
            server_programs=str(paths.server_programs),
        )
        child = await self._place.start(spec)
        self._note_change()
        return child

    async def _ask_to_stop(self) -> None:
        """It closes the inputs of all servers, gives them a second together, and ends."""
        await self.process.send(encode_hub_op(Shutdown(grace_s=_GOODBYE_S)))

    def _note_change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _on_end(self) -> None:
        self.process.dismiss()
        self._pass_on(None)
        opened, self._open = self._open, {}
        for request in opened.values():
            request.answer(None)
        self._note_change()

    def _on_crash(self, ended: ProcessEnd) -> None:
        _log.warning("%s ended: %s\n%s", self._title, ended.reason, ended.stderr_tail)
        if self._place.is_there():
            why = ended.stderr_tail.strip().rpartition("\n")[2][:_WHY_CHARS]
            self._warn(f"{self._title} ended and is started again: {why or ended.reason}")

    def _on_give_up(self, cause: ProcessEnd | SpawnError) -> None:
        why = str(cause) if isinstance(cause, SpawnError) else f"it keeps ending: {cause.reason}"
        self._failure = f"{self._title} is gone for good, and no MCP tool works there: {why}"
        if self._place.is_there():
            self._warn(self._failure)
        self._note_change()

    @property
    def _title(self) -> str:
        return f"the MCP hub on {self._place.name}" if self._place.name else "the MCP hub"

    def check_alive(self) -> None:
        """SIGKILL a hub that is silent; it is replaced."""
        self.process.kill_if_silent()

    def on_message(self, message: ReceivedMessage) -> None:
        """Handle one message of the hub; never waits."""
        event = self.process.read(message, decode_hub_event)
        if event is not None:
            self._run.mailbox.acknowledge(message)
            self._on_event(event)

    def _on_event(self, event: AnyHubEvent) -> None:
        match event:
            case ToolsListed(request=number, tools=reply):
                self._answer(number, reply)
            case ToolCalled(request=number, outcome=reply):
                self._answer(number, reply)
            case CallProgressed(request=number, text=line):
                if (request := self._open.get(number)) is not None:
                    request.on_progress(line[:MAX_PROGRESS])
            case ServerLogged(server=name, text=text):
                if name in self.servers:
                    self._logs.append(name, text)
            case PersonAsked() | ModelAsked() | QuestionWithdrawn():
                self._pass_on(event)
            case Warned():
                self._warn(event.message)
            case Hello() | Heartbeat() | Goodbye():
                return

    def _pass_on(self, event: HubQuestion) -> None:
        try:
            self._asked.send_nowait(event)
        except trio.WouldBlock:
            self._warn("MCP servers ask too much at once: a question of one of them is lost")

    def _answer(self, number: int, reply: _Reply) -> None:
        if (request := self._open.pop(number, None)) is not None:
            request.answer(reply)

    # --- requests ----------------------------------------------------------------------------

    async def list_tools(
        self, agent_id: str, names: tuple[str, ...], asked: ListMcpTools = _EVERY_TOOL
    ) -> McpTools:
        """The tools of these servers; one that cannot be used is among the failures."""
        limit_s = max((self.servers[name].startup_timeout_s for name in names), default=0.0)
        why = "the MCP hub gave no answer"
        for _ in range(_MAX_STARTS):
            number = next(self._numbers)
            order = ListTools(
                request=number,
                agent=agent_id,
                servers=names,
                query=asked.query,
                again=asked.again,
            )
            with trio.move_on_after(2 * limit_s + MARGIN_S):
                reply = await self._ask(number, order)
                if isinstance(reply, McpTools):
                    return tools_of(reply, names)
            if self._failure:
                why = self._failure
                break
        return McpTools(failures=tuple(McpFailure(server=one, reason=why) for one in names))

    async def call(self, agent: Agent, request: CallMcpTool, on_progress: OnProgress) -> McpOutcome:
        """Call a tool, at most once. Cancelling it tells the server."""
        server, number = self.servers[request.server], next(self._numbers)
        order = CallTool(
            request=number,
            agent=agent.plan.agent_id,
            server=request.server,
            tool=request.tool,
            arguments=request.arguments,
        )
        limit_s = 2 * server.tool_timeout_s + server.startup_timeout_s + MARGIN_S
        open_call = self._calls[number] = OpenCall(agent, request, limit_s=limit_s)
        try:
            return await self._outcome(number, order, open_call.limit, on_progress)
        finally:
            del self._calls[number]
            open_call.ended.set()

    async def ask(
        self, agent_id: str, names: tuple[str, ...], question: ListMcpResources | ReadMcpResource
    ) -> McpOutcome:
        """Ask these servers about resources, at most once. Cancelling it tells them."""
        number = next(self._numbers)
        order = AskServers(request=number, agent=agent_id, servers=names, question=question)
        servers = [self.servers[name] for name in names]
        limits = [one.tool_timeout_s + one.startup_timeout_s for one in servers]
        limit = RestingLimit(max(limits, default=0.0) + MARGIN_S)
        return await self._outcome(number, order, limit)

    async def _outcome(
        self,
        number: int,
        order: AnyHubOp,
        limit: RestingLimit,
        on_progress: OnProgress | None = None,
    ) -> McpOutcome:
        with limit.scope:
            reply = await self._ask(number, order, on_progress)
            if isinstance(reply, McpOutcome):
                return reply
            if self._failure:
                return McpOutcome(state="failed", message=self._failure)
            return McpOutcome(state="interrupted", message=_HUB_GONE)
        return McpOutcome(state="timed_out", message=f"no answer within {limit.limit_s:g} s")

    async def _ask(
        self, number: int, order: AnyHubOp, on_progress: OnProgress | None = None
    ) -> _Reply | None:
        """The hub's reply; None if it died, or if there is none."""
        while not self.process.identity:
            if self._failure:
                return None
            self._needed.set()
            await self._changed.wait()
        request = self._open[number] = _OpenRequest(on_progress or _show_nothing)
        try:
            await self.process.send(encode_hub_op(order))
            await request.answered.wait()
            return request.reply
        except trio.Cancelled:
            with trio.move_on_after(1.0, shield=True):
                await self.process.send(encode_hub_op(CancelCall(request=number)))
            raise
        finally:
            self._open.pop(number, None)

    def open_calls(self, numbers: tuple[int, ...]) -> tuple[OpenCall, ...]:
        """Those of these calls that still run."""
        return tuple(self._calls[one] for one in numbers if one in self._calls)

    @contextmanager
    def resting(self, calls: tuple[OpenCall, ...]) -> Iterator[None]:
        """The limits of these calls do not count within the block."""
        with ExitStack() as limits:
            for one in calls:
                limits.enter_context(one.limit.resting())
            yield

    def log(self, server: str, text: str) -> None:
        """Add a line to the server's log."""
        self._logs.append(server, text)

    async def send_answer(self, answer: PersonAnswered | ModelAnswered) -> None:
        """Tell the hub; one that has died asked for nothing."""
        if self.process.identity:
            await self.process.send(encode_hub_op(answer))

    async def release_agent(self, agent_id: str) -> None:
        """The agent's process has ended: servers that are its own end, too."""
        if self.process.identity:
            with trio.move_on_after(1.0):
                await self.process.send(encode_hub_op(ReleaseAgent(agent=agent_id)))

    async def start_required(self) -> str:
        """Start the servers without which the run must not begin; why it cannot, or ""."""
        names = tuple(
            name for name, one in self.servers.items() if one.required and not one.on_node
        )
        if not names:
            return ""
        found = await self.list_tools("", names)
        return "; ".join(
            f"required MCP server `{one.server}` ({self.servers[one.server].source}): {one.reason}"
            for one in found.failures
        )

    @property
    def is_of_use(self) -> bool:
        """False once its machine has left: one of that name gets another hub."""
        return self._place.is_there()

    def _warn(self, message: str) -> None:
        self._run.note(Warned(message=message))


def tools_of(found: McpTools, names: tuple[str, ...]) -> McpTools:
    """What is said of these servers: a hub elsewhere speaks for its own, and for no other."""
    return McpTools(
        tools=tuple(one for one in found.tools if one.server in names),
        failures=tuple(one for one in found.failures if one.server in names),
        resources=tuple(one for one in found.resources if one in names),
    )


def _show_nothing(line: str) -> None:
    return
