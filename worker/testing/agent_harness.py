"""Test harness: runs one real agent in memory with a fake supervisor and a fake gateway.

The agent is the real code. The fakes keep the contracts of the real parts: the supervisor
acknowledges what it "journals"; the gateway holds a conversation by count and digest, and requests
the history when these do not match.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import msgspec
import trio

from swarm.mailbox.base.entropy import EntropySources
from swarm.mailbox.delivery.interfaces import Mailbox, MailboxServer, ReceivedMessage
from swarm.mailbox.delivery.pair import PairServer, open_pair_server
from swarm.mailbox.protocol.events import (
    AnyEvent,
    CallBegan,
    FileWatch,
    ItemCompleted,
    RequestSent,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    decode_event,
)
from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.items import AnyItem, decode_item
from swarm.mailbox.protocol.ops import Answer, AnyOp, TextInput, UserInput, encode_op
from swarm.mailbox.protocol.requests import (
    AnyReply,
    AnyRequest,
    ChangesReply,
    EnvironmentReply,
    FilesWatched,
    GetEnvironment,
    ListChanges,
    WatchFiles,
)
from swarm.mailbox.protocol.sampling import (
    AnySampleEvent,
    AnySampleOp,
    CancelSample,
    ConversationOpened,
    ConversationRefused,
    ModelInfo,
    NeedHistory,
    OpenConversation,
    ReasoningDelta,
    SampleAlive,
    SampleCompleted,
    SampleFailed,
    SampleItemDone,
    SampleItemStarted,
    SampleRequest,
    SampleWaiting,
    TextDelta,
    chain_digest,
    decode_sample_op,
    encode_sample_event,
)
from swarm.mailbox.protocol.spec import AgentSpec
from swarm.roles.parts.hooks.hook_output import HookEnd

from ..agent.agent_lifecycle import run_agent_lifecycle
from ..base.current_spec import CurrentSpec
from ..base.reporter import Reporter
from ..exec.exec_sessions import EnvironmentSource
from ..tools.interface.team_client import TeamClient
from ..tools.interface.tool_interface import Tool
from ..tools.orchestrator import ToolRegistry

ReplyStep = AnySampleEvent | float  # an event (its request_id is filled in), or seconds of silence
FakeReply = Sequence[ReplyStep]
MakeTools = Callable[[TeamClient], Sequence[Tool]]
Kind = TypeVar("Kind", bound=AnyEvent)
FAKE_MODEL = ModelInfo(slug="rehearsal", provider="rehearsal", wire="scripted", freeform_tools=True)
TRANSIENT_SAMPLE_EVENTS = (SampleItemStarted, TextDelta, ReasoningDelta, SampleWaiting, SampleAlive)
TERMINAL_EVENTS = (TurnCompleted, TurnFailed, TurnAborted)


class FakeGateway:
    """Fake gateway: answers each request with the next scripted reply, then with silence."""

    def __init__(
        self, server: MailboxServer, replies: Sequence[FakeReply], model: ModelInfo
    ) -> None:
        self._server, self._replies, self.model = server, list(replies), model
        self.opened: list[OpenConversation] = []
        self.requests: list[SampleRequest] = []  # as received, with repeats after NeedHistory
        self.inputs: list[tuple[AnyItem, ...]] = []  # the whole input of each answered request
        self.cancelled: list[int] = []
        self.refuse: str | None = None  # set: refuse the conversation
        self._known: list[bytes] = []
        self._playing: dict[int, trio.CancelScope] = {}

    async def run(self) -> None:
        """Serve requests for ever."""
        async with trio.open_nursery() as nursery:
            while True:
                message = await self._server.receive()
                self._server.acknowledge(message)
                op: AnySampleOp = decode_sample_op(message.body)
                match op:
                    case OpenConversation() as opening:
                        self.opened.append(opening)
                        await self._open_conversation(message.peer)
                    case SampleRequest() as request:
                        nursery.start_soon(self._answer, message.peer, request)
                    case CancelSample(request_id=number):
                        self.cancelled.append(number)
                        if number in self._playing:
                            self._playing[number].cancel()

    def add_replies(self, *replies: FakeReply) -> None:
        """Append scripted replies."""
        self._replies += replies

    def forget_conversation(self) -> None:
        """Drop the conversation, like a restarted gateway."""
        self._known.clear()

    async def _open_conversation(self, peer: bytes) -> None:
        if self.refuse is not None:
            await self._post(peer, ConversationRefused(message=self.refuse))
        else:
            await self._post(peer, ConversationOpened(model=self.model))

    async def _answer(self, peer: bytes, request: SampleRequest) -> None:
        self.requests.append(request)
        number = request.request_id
        digest = b""
        for raw in self._known[: request.base_count]:
            digest = chain_digest(digest, raw)
        if len(self._known) < request.base_count or digest != request.base_digest:
            await self._post(peer, NeedHistory(request_id=number))
            return
        self._known[request.base_count :] = [bytes(raw) for raw in request.items]
        self.inputs.append(tuple(decode_item(raw) for raw in self._known))
        reply = self._replies.pop(0) if self._replies else ()
        with trio.CancelScope() as self._playing[number]:
            for step in reply:
                if isinstance(step, float | int):
                    await trio.sleep(step)
                elif isinstance(step, ConversationOpened | ConversationRefused):
                    await self._post(peer, step)
                else:
                    await self._post(peer, msgspec.structs.replace(step, request_id=number))
        del self._playing[number]

    async def _post(self, peer: bytes, event: AnySampleEvent) -> None:
        if isinstance(event, TRANSIENT_SAMPLE_EVENTS):
            self._server.send_transient(peer, encode_sample_event(event))
        else:
            await self._server.post(peer, encode_sample_event(event))


class FakeSupervisor:
    """Fake supervisor: records all events in order and sends ops on demand."""

    def __init__(self, server: MailboxServer, spec: AgentSpec) -> None:
        self._server, self._peer = server, spec.identity
        self._environment = spec.environment
        self.events: list[AnyEvent] = []
        self.changes: ChangesReply | None = ChangesReply()  # None: ListChanges gets no reply
        self.journaling = True  # False: nothing is acknowledged until it is True again
        self._unacknowledged: list[ReceivedMessage] = []
        self.recording_files = True  # False: the requests in `watches` get no reply
        self.watches: list[FileWatch] = []  # of begun calls, answered once journaled
        self._news = trio.Event()
        self.ended = trio.Event()  # the agent has ended

    async def run(self) -> None:
        """Receive events for ever."""
        while True:
            message = await self._server.receive()
            self._unacknowledged.append(message)
            if self.journaling:
                self.acknowledge_all()
            event = decode_event(message.body)
            if (
                isinstance(event, RequestSent)
                and (reply := self._reply_to(event.request)) is not None
            ):
                self._answer(event.request_id, reply)
                continue
            if isinstance(event, CallBegan) and event.watch is not None:
                self.watches.append(event.watch)
                event = msgspec.structs.replace(event, watch=None)
            if self.journaling:
                self._answer_watches()
            self.events.append(event)
            news, self._news = self._news, trio.Event()
            news.set()

    def _reply_to(self, request: AnyRequest) -> AnyReply | None:
        """Reply to requests that every agent sends and that no test is about."""
        match request:
            case GetEnvironment():
                return EnvironmentReply(variables=self._environment)
            case WatchFiles() if self.recording_files:
                return FilesWatched()
            case ListChanges():
                return self.changes
            case _:
                return None

    def acknowledge_all(self) -> None:
        """Acknowledge all received messages."""
        self.journaling = True
        for message in self._unacknowledged:
            self._server.acknowledge(message)
        self._unacknowledged.clear()
        self._answer_watches()

    def _answer_watches(self) -> None:
        while self.recording_files and self.watches:
            self._answer(self.watches.pop(0).request_id, FilesWatched())

    def _answer(self, request_id: int, reply: AnyReply) -> None:
        self._server.post_nowait(self._peer, encode_op(Answer(request_id=request_id, reply=reply)))

    async def send_op(self, op: AnyOp) -> None:
        """Post an op; returns when the agent's acknowledgement arrives: with its next message, or
        within 100 ms.
        """
        seq = await self._server.post(self._peer, encode_op(op))
        await self._server.wait_acknowledged(self._peer, seq)

    async def send_text(self, text: str, *, input_id: str = "turn-1") -> None:
        """Send a person's input."""
        await self.send_op(UserInput(input_id=input_id, parts=(TextInput(text=text),)))

    def events_of(self, kind: type[Kind]) -> list[Kind]:
        """Return all events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def items(self, source: str | None = None) -> list[AnyItem]:
        """Return all items that joined the history, of one source or of all."""
        completed = self.events_of(ItemCompleted)
        return [
            decode_item(bytes(event.item))
            for event in completed
            if source is None or event.source == source
        ]

    async def wait_for(self, kind: type[Kind], count: int = 1) -> Kind:
        """Return the `count`-th event of a kind; the caller sets a deadline if it needs one."""
        while len(self.events_of(kind)) < count:
            await self._news.wait()
        return self.events_of(kind)[count - 1]

    async def wait_turns(self, count: int = 1) -> TurnCompleted | TurnFailed | TurnAborted:
        """Return the `count`-th terminal event."""
        while len(ends := [one for one in self.events if isinstance(one, TERMINAL_EVENTS)]) < count:
            await self._news.wait()
        return ends[count - 1]


class FakeToolHost:
    """Fake tools, and real team tools; it has no commands."""

    def __init__(self, tools: Sequence[Tool], make_team_tools: MakeTools) -> None:
        self._tools, self._make_team_tools = tuple(tools), make_team_tools
        self.hook_ends: dict[str, HookEnd] = {}  # by id; others end with 0 and say nothing
        self.hook_inputs: list[tuple[str, bytes]] = []
        self.is_prewarmed = self.ended = False
        self.live_commands = 0

    def make_registry(self, reporter: Reporter, team: TeamClient) -> ToolRegistry:
        return ToolRegistry((*self._tools, *self._make_team_tools(team)))

    def set_environment_source(self, source: EnvironmentSource) -> None:
        self.environment_source = source

    async def prewarm(self) -> None:
        self.is_prewarmed = True

    async def end_commands(self) -> None:
        self.ended = True

    async def run_hook(self, hook: Hook, payload: bytes) -> HookEnd:
        self.hook_inputs.append((hook.hook_id, payload))
        return self.hook_ends.get(hook.hook_id, HookEnd(exit_code=0))


class AgentHarness(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one harness."""

    supervisor: FakeSupervisor
    gateway: FakeGateway
    tool_host: FakeToolHost
    current: CurrentSpec


@asynccontextmanager
async def open_agent_harness(
    spec: AgentSpec,
    replies: Sequence[FakeReply] = (),
    *,
    tools: Sequence[Tool] = (),
    team_tools: MakeTools = lambda team: (),
    model: ModelInfo = FAKE_MODEL,
) -> AsyncIterator[AgentHarness]:
    """Run an agent; it is cancelled when the block ends, if it has not ended itself."""
    async with (
        open_pair_server(epoch=1) as supervisors,
        open_pair_server(epoch=1) as gateways,
        trio.open_nursery() as nursery,
    ):
        supervisors.admit(spec.identity, epoch=spec.epoch)
        gateways.admit(spec.identity, epoch=spec.epoch)
        supervisor, gateway = (
            FakeSupervisor(supervisors, spec),
            FakeGateway(gateways, replies, model),
        )
        tool_host, current = FakeToolHost(tools, team_tools), CurrentSpec(spec)
        mailbox = supervisors.connect(spec.identity, epoch=spec.epoch)
        nursery.start_soon(supervisor.run)
        nursery.start_soon(gateway.run)

        def dial(endpoint: str) -> AbstractAsyncContextManager[Mailbox]:
            return _open_mailbox(gateways, spec)

        async def lead() -> None:
            numbers = iter(range(1, 1 << 30))
            entropy = EntropySources(lambda: f"id-{next(numbers)}", lambda: 0.5, lambda: 0.0)
            await run_agent_lifecycle(current, mailbox, dial, tool_host, entropy)
            supervisor.ended.set()

        nursery.start_soon(lead)
        yield AgentHarness(
            supervisor=supervisor, gateway=gateway, tool_host=tool_host, current=current
        )
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _open_mailbox(server: PairServer, spec: AgentSpec) -> AsyncIterator[Mailbox]:
    mailbox = server.connect(spec.identity, epoch=spec.epoch)
    try:
        yield mailbox
    finally:
        server.disconnect_child(spec.identity)
        server.dismiss(spec.identity)
        server.admit(spec.identity, epoch=spec.epoch)


def done(item: AnyItem) -> SampleItemDone:
    """Return a complete item as a step of a reply."""
    return SampleItemDone(request_id=0, item=item)


def failed(kind: str, *, retryable: bool = False, message: str = "no luck") -> SampleFailed:
    """Return a failure as a step of a reply."""
    body = {"request_id": 0, "kind": kind, "message": message, "retryable": retryable}
    return msgspec.convert(body | {"type": "sample_failed"}, SampleFailed)


END = SampleCompleted(request_id=0)
