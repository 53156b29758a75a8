"""One connection with a server: negotiate, list its tools, call them. Raises `ServerFailed` only.

The SDK's own check of structured results is left out: it would run a server's regular expressions
in the process that all servers share.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import httpx2
import mcp_types
import msgspec
import trio
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import FileUrl, ValidationError

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.mcp import (
    McpOutcome,
    McpQuestion,
    McpServer,
    McpTool,
)
from swarm.mailbox.protocol.spec import HubSpec
from swarm.roles.config.login_store import LoginStore

from ...exec.launcher_client import LauncherClient
from .call_progress import OnProgress, clean_line, describe_progress
from .call_questions import AnswersServers, CallQuestions
from .call_result import convert_result, redact_outcome
from .call_rounds import CallRounds, PageRequired, TooManyRounds
from .fitted_stream import FittedStream
from .handshake import Handshakes, is_closed, negotiate
from .prompt_arguments import PromptMisused
from .result_fitting import describe_validation
from .running_call import RunningCall
from .server_content import answer_question
from .server_http_client import HttpAccess
from .server_logs import ServerLogs
from .server_process import open_server_process, plan_start
from .stdio_transport import StdioTransport, Streams
from .stored_login import StoredLoginAuth
from .tool_description import describe_tool, is_enabled
from .tool_schema import clean_text

MAX_TOOLS = 500  # of one server
_MAX_PAGES = 50
_END_LIMIT_S = 0.5
_Answer = TypeVar("_Answer")
_FORGOTTEN = "the server has forgotten this session"
_PAGE_DONE = "what a person was asked to do on a web page is done"
_CLIENT = mcp_types.Implementation(name="swarm-mcp-client", version="1")


class ServerFailed(SwarmError):
    """The server could not be used, or its connection broke. The text is for people and models."""


class CallInterrupted(ServerFailed):
    """The connection ended while the call ran."""


class SessionForgotten(ServerFailed):
    """The server knows this session no longer: it did nothing, and a new session may be begun."""


class SessionContext(NamedTuple):
    """What the sessions of a hub share."""

    spec: HubSpec
    credentials: Mapping[str, str]
    launcher: LauncherClient
    logs: ServerLogs
    answers: AnswersServers
    handshakes: Handshakes


class _Session(ClientSession):
    """Without the SDK's check of structured results."""

    def __init__(
        self,
        streams: Streams,
        server: McpServer,
        context: SessionContext,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._server, self._logs, self.redact = server, context.logs, redact
        self._root = Path(server.cwd or context.spec.cwd)
        self.is_list_stale = False  # the server has said that its tools have changed
        self._listeners: list[OnProgress] = []  # of the calls that run
        self.questions = CallQuestions(server, context.answers)
        super().__init__(
            FittedStream(streams.reader, lambda: self.protocol_version or "", self._note_odd),
            streams.writer,
            client_info=_CLIENT,
            logging_callback=self._keep_log,
            message_handler=self._note_change,
            list_roots_callback=None if server.url else self._give_roots,
            elicitation_callback=self._elicit,
            sampling_callback=None if server.sampling == "off" else self._sample,
        )

    def _note_odd(self, line: str) -> None:
        self._logs.add(self._server.name, f"[notice] {clean_line(self.redact(line))}\n".encode())

    async def _give_roots(self, context: object) -> mcp_types.ListRootsResult:
        """The folder of a stdio server; one on another machine has no use for it."""
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=FileUrl(self._root.as_uri()))])

    async def _elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        return await self.questions.elicit(params)

    async def _sample(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        return await self.questions.sample(params)

    async def _note_change(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.is_list_stale = True
        if isinstance(message, mcp_types.ElicitCompleteNotification):
            self._logs.add(self._server.name, f"[notice] {_PAGE_DONE}\n".encode())
            for listen in self._listeners:
                listen(_PAGE_DONE)

    @contextmanager
    def log_shown(self, listen: OnProgress) -> Iterator[None]:
        """Within the block the server's log messages are also given to `listen`."""
        self._listeners.append(listen)
        try:
            yield
        finally:
            self._listeners.remove(listen)

    async def _keep_log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        text = self.redact(params.data if isinstance(params.data, str) else repr(params.data))
        self._logs.add(self._server.name, f"[{params.level}] {text:.4000}\n".encode())
        if params.level != "debug":
            for listen in self._listeners:
                listen(clean_line(text))

    async def validate_tool_result(self, name: str, result: mcp_types.CallToolResult) -> None:
        return


class LiveServer(Protocol):
    """A connected server."""

    tools: tuple[McpTool, ...]
    has_resources: bool

    async def wait_ended(self) -> str:
        """Return when the connection can no longer be used: why."""
        ...

    async def current_tools(self) -> tuple[McpTool, ...]:
        """The tools, listed again if the server has said that they changed. Raises ServerFailed."""
        ...

    async def call(
        self, call: RunningCall, arguments: Mapping[str, object], on_progress: OnProgress
    ) -> McpOutcome:
        """Call a tool; cancelling tells the server. Raises ServerFailed, CallInterrupted."""
        ...

    async def ask(self, question: McpQuestion) -> McpOutcome:
        """Ask for resources or prompts. Raises ServerFailed, CallInterrupted."""
        ...


class ServerSession:
    """A `LiveServer` over a session of the SDK."""

    def __init__(
        self, session: _Session, server: McpServer, access: HttpAccess | None = None
    ) -> None:
        self._session, self._server, self._access = session, server, access
        self._listing = trio.Lock()
        self.tools: tuple[McpTool, ...] = ()
        self.has_resources = False
        self.ended = trio.Event()
        self.fault = ""

    async def connect(self, *, probe: bool) -> bool:
        """Negotiate the protocol, then list the tools; True if its revision is one of the newer.

        Raises ServerFailed. `probe`: it may be asked for the newer revisions.
        """
        try:
            is_newer = await negotiate(self._session, probe=probe)
            able = self._session.server_capabilities
            self.has_resources = able is not None and able.resources is not None
            self.tools = await self._first_tools(can_list=able is None or able.tools is not None)
        except (MCPError, RuntimeError, ValueError, httpx2.HTTPError) as error:
            raise ServerFailed(self._why(error)) from error
        return is_newer

    async def _first_tools(self, *, can_list: bool) -> tuple[McpTool, ...]:
        """A server that says that it has no tools is asked all the same: some forget to say it."""
        try:
            return await self._list_tools()
        except MCPError as error:
            if can_list or (self._access is not None and self._access.explain(error)):
                raise
            return ()

    async def current_tools(self) -> tuple[McpTool, ...]:
        async with self._listing:
            if self._session.is_list_stale:
                self._session.is_list_stale = False
                try:
                    with trio.fail_after(self._server.startup_timeout_s):
                        self.tools = await self._list_tools()
                except (MCPError, RuntimeError, ValueError, httpx2.HTTPError) as error:
                    self._session.is_list_stale = True
                    if self._access is not None and self._access.has_forgotten(error):
                        raise SessionForgotten(_FORGOTTEN) from error
                    raise ServerFailed(
                        f"its changed tools cannot be listed: {self._why(error)}"
                    ) from error
                except trio.TooSlowError:
                    raise ServerFailed("its changed tools were not listed in time") from None
            return self.tools

    async def _list_tools(self) -> tuple[McpTool, ...]:
        found: list[McpTool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._session.list_tools(
                params=mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
            )
            found += [describe_tool(one, self._server) for one in page.tools]
            cursor = page.next_cursor
            if not cursor or len(found) >= MAX_TOOLS:
                break
        allowed = (one for one in found[:MAX_TOOLS] if is_enabled(one.tool, self._server))
        return tuple(allowed)

    async def wait_ended(self) -> str:
        await self.ended.wait()
        return self.fault

    def end(self, fault: str) -> None:
        """The connection is broken; the first reason counts."""
        self.fault = self.fault or fault
        self.ended.set()

    async def call(
        self, call: RunningCall, arguments: Mapping[str, object], on_progress: OnProgress
    ) -> McpOutcome:
        started = trio.current_time()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            on_progress(self._session.redact(describe_progress(progress, total, message)))

        session = self._session
        send = partial(
            session.call_tool,
            call.tool,
            dict(arguments),  # also where it is empty: older servers refuse a call without any
            progress_callback=note,
            allow_input_required=True,
        )
        rounds = CallRounds(session, session.questions)
        with session.log_shown(on_progress):
            result = await self._answered(partial(rounds.complete, call, send))
        return self._kept(convert_result(result, duration_s=0.0), started)

    async def ask(self, question: McpQuestion) -> McpOutcome:
        started = trio.current_time()
        outcome = await self._answered(
            partial(answer_question, self._session, self._server.name, question)
        )
        return self._kept(outcome, started)

    async def _answered(self, send: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """The answer to one request. Raises ServerFailed, CallInterrupted."""
        try:
            return await send()
        except MCPError as error:
            if is_closed(error):
                with trio.move_on_after(_END_LIMIT_S):  # its reason is known a moment later
                    await self.ended.wait()
                if self.fault:
                    raise CallInterrupted(f"the server ended ({self.fault})") from error
                raise CallInterrupted("the connection to the server ended") from error
            if self._access is not None and self._access.has_forgotten(error):
                self.end(_FORGOTTEN)
                raise SessionForgotten(_FORGOTTEN) from error
            raise ServerFailed(self._why(error)) from error
        except httpx2.HTTPError as error:
            self.end(str(error))
            raise CallInterrupted(f"the connection to the server failed: {error}") from error
        except (PromptMisused, PageRequired, TooManyRounds) as error:
            raise ServerFailed(str(error)) from error
        except (RuntimeError, ValueError) as error:
            raise ServerFailed(self._why(error)) from error

    def _kept(self, outcome: McpOutcome, started: float) -> McpOutcome:
        """The outcome with its duration, and without tokens that the server has sent back."""
        outcome = msgspec.structs.replace(outcome, duration_s=trio.current_time() - started)
        return outcome if self._access is None else redact_outcome(outcome, self._access.redact)

    def _why(self, error: Exception) -> str:
        if self._access is None:
            return _why(error)
        return self._access.explain(error) or self._access.redact(_why(error))


@asynccontextmanager
async def open_stdio_session(
    context: SessionContext, server: McpServer, *, label: str
) -> AsyncIterator[ServerSession]:
    """Start the server and connect. Raises ServerNotStarted, ServerFailed.

    A server that ends when it is asked for a newer revision is started once more without that.
    """
    handshakes = context.handshakes
    probe = handshakes.may_probe(server.name)
    async with AsyncExitStack() as stack:
        try:
            opened = _open_stdio_once(context, server, label, probe=probe)
            live = await stack.enter_async_context(opened)
        except (ServerFailed, BaseExceptionGroup):
            if not probe or handshakes.may_probe(server.name):
                raise
            handshakes.forget(server.name)  # kept again below if the older way works
            opened = _open_stdio_once(context, server, label, probe=False)
            live = await stack.enter_async_context(opened)
        yield live


@asynccontextmanager
async def _open_stdio_once(
    context: SessionContext, server: McpServer, label: str, *, probe: bool
) -> AsyncIterator[ServerSession]:
    on_log = partial(context.logs.add, server.name)
    start = plan_start(server, context.spec, context.credentials, on_log)
    async with open_server_process(
        context.launcher, context.spec, start, label=label, on_log=on_log
    ) as process:
        transport = StdioTransport(process)
        async with (
            transport.open() as streams,
            _Session(streams, server, context) as session,
            trio.open_nursery() as nursery,
        ):
            live = ServerSession(session, server)

            async def watch() -> None:
                await transport.ended.wait()
                tail = clean_text(process.stderr_text()[-500:], limit=500)
                live.end(transport.fault + (f"; it wrote: {tail}" if tail else ""))

            nursery.start_soon(watch)
            try:
                is_newer = await live.connect(probe=probe)
            except ServerFailed as error:
                if transport.ended.is_set():
                    context.handshakes.note_older(server.name)
                    raise ServerFailed(await live.wait_ended()) from error
                raise
            if not is_newer:
                context.handshakes.note_older(server.name)
            yield live
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_http_session(
    context: SessionContext, server: McpServer, login: httpx2.Auth | None = None
) -> AsyncIterator[ServerSession]:
    """Connect over streamable HTTP. Raises ServerFailed.

    Args:
        login: In place of the stored one.
    """
    headers = _http_headers(context, server)
    if login is None and "authorization" not in {name.lower() for name in headers}:
        login = _own_login(context, server)
    access = HttpAccess(server, headers, login)
    async with (
        access.client as client,
        streamable_http_client(server.url, http_client=client) as (reader, writer),
        _Session(Streams(reader, writer), server, context, access.redact) as session,
    ):
        live = ServerSession(session, server, access)
        if not await live.connect(probe=context.handshakes.may_probe(server.name)):
            context.handshakes.note_older(server.name)
        yield live


def _own_login(context: SessionContext, server: McpServer) -> httpx2.Auth:
    """Of the person, or of the program that the table names. Raises ServiceLoginUnusable."""
    if server.oauth_grant == "client_credentials":
        from .service_login import ServiceLogin  # with its cryptography, seldom needed

        return ServiceLogin(server, context.credentials)
    return StoredLoginAuth(LoginStore(Path(context.spec.logins)), server.name, server.url)


def _http_headers(context: SessionContext, server: McpServer) -> dict[str, str]:
    credentials = context.credentials
    headers = {name: credentials[key] for name, key in server.headers.items() if key in credentials}
    if server.bearer:
        if server.bearer not in credentials:
            raise ServerFailed(f"the variable {server.bearer} with its token is not set")
        headers["Authorization"] = f"Bearer {credentials[server.bearer]}"
    return headers


def _why(error: Exception) -> str:
    if isinstance(error, MCPError):
        return (
            f"the server answered with error {error.code}: {clean_text(error.message, limit=500)}"
        )
    if isinstance(error, ValidationError):
        return clean_text(describe_validation(error), limit=500)
    return clean_text(f"{type(error).__name__}: {error}", limit=500)
