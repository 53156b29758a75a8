"""Routes every message of every child process once, in order.

Durable events are journaled, then acknowledged, then shown; transient events are only shown. A
message that cannot be decoded is counted and acknowledged (the first one is also logged); it never
ends the supervisor.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.interfaces import ReceivedMessage
from swarm.mailbox.parts.part_messages import PartEvent, PartRequest
from swarm.mailbox.protocol.control import TransientEvent
from swarm.mailbox.protocol.events import (
    AnyEvent,
    CallBegan,
    CallEnded,
    CommandCall,
    ContextReplaced,
    FileWatch,
    Goodbye,
    Heartbeat,
    Hello,
    HookRan,
    ItemCompleted,
    LockGap,
    OutputArrived,
    ProviderFallback,
    ReasoningArrived,
    RequestSent,
    TextArrived,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnEnd,
    TurnFailed,
    TurnStarted,
    Waiting,
    Warned,
    decode_event,
)
from swarm.mailbox.protocol.items import decode_item
from swarm.mailbox.protocol.ops import Answer
from swarm.mailbox.protocol.records import (
    AnyRecordBody,
    ContextRecorded,
    ItemRecorded,
    Record,
    SettingsChanged,
)
from swarm.mailbox.protocol.requests import (
    AnyReply,
    EnvironmentReply,
    FilesSaved,
    KeepFiles,
    ListChanges,
    McpRequest,
    MergeCopies,
    NonTeamRequest,
    PlanMerge,
    ReportPermission,
    RequestApproval,
    RequestRefused,
    SaveFiles,
    StoreBlob,
    WatchFiles,
)
from swarm.mailbox.proxy_environment import PROXY_VARIABLES

from .agents.agent_fallback import plan_after_fallback
from .agents.agent_manager import AgentManager
from .agents.agent_record import Agent
from .approvals.approval_endpoint import ApprovalEndpoint
from .control_requests.settings_change import settings_of
from .file_history.file_history import FileHistory
from .isolation.agent_merges import serve_merge_request
from .isolation.change_measures import ChangeMeasures
from .mcp.mcp_requests import McpEndpoint
from .processes.service_process import Service
from .processes.shell_snapshot import ShellSnapshot
from .run_context import RunContext
from .runs.image_blobs import store_blob
from .team.team_service import TeamService

_log = logging.getLogger("swarm.event_router")
# For people, when read-only agents cannot lock their own processes with Landlock.
_LOCK_ADVICE = (
    "; --require-sandbox fs refuses such a machine, and `swarm doctor` says how to mend it"
)
_LANDLOCK_WARNINGS: dict[LockGap, str] = {
    "all": "agents of read-only roles (explorer, the reviewer) run UNLOCKED: this kernel has no "
    "Landlock, so nothing confines their own processes; their commands are in the sandbox"
    + _LOCK_ADVICE,
    "truncation": "agents of read-only roles (explorer, the reviewer) are locked only in part: the "
    "Landlock of this kernel (before ABI 3) does not keep their own processes from truncating "
    "files" + _LOCK_ADVICE,
}


class EventRouter:
    """Handles each message at the moment of its arrival, without waiting."""

    def __init__(  # noqa: PLR0917 - the services that take the messages
        self,
        running: RunContext,
        agents: AgentManager,
        services: Iterable[Service],
        team_service: TeamService,
        approvals: ApprovalEndpoint,
        mcp: McpEndpoint,
        nursery: trio.Nursery,
    ) -> None:
        self._run, self._agents, self._services, self._nursery = running, agents, services, nursery
        self._team_service, self._approvals, self._mcp = team_service, approvals, mcp
        self.file_history = FileHistory(running, nursery)
        self._parts = team_service.parts
        self._change_measures = ChangeMeasures(running)
        self.unreadable_count = 0
        self._warned_of_landlock = False
        request = running.request
        withheld = set(request.keys).union(
            *({one.env_key or "", *one.env_http_headers.values()} for one in request.providers)
        )
        if request.goes_upstream:
            withheld.update(*((name, name.lower()) for name in PROXY_VARIABLES))
        self._shell = ShellSnapshot(
            request.environment, withheld=withheld, asked=request.shell_snapshot
        )

    async def run(self) -> None:
        """Handle messages as they arrive, until cancelled."""
        await self._run.mailbox.consume(self._route)

    def _route(self, message: ReceivedMessage) -> bool:
        for service in self._services:
            if service.process.identity == message.peer:
                service.on_message(message)
                return False
        if (agent := self._agents.find_by_peer(message.peer)) is not None:
            try:
                event = decode_event(message.body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self._on_unreadable(message, error)
            else:
                self._on_event(agent, event, message)
        # else its process has ended; what it sent and saw acknowledged is in the journal
        return False

    def _on_unreadable(self, message: ReceivedMessage, error: Exception) -> None:
        self.unreadable_count += 1
        if self.unreadable_count == 1:
            _log.warning("a message of %r could not be read: %s", message.peer, error)
        self._run.mailbox.acknowledge(message)

    def _on_event(self, agent: Agent, event: AnyEvent, message: ReceivedMessage) -> None:
        agent.process.note_heartbeat(trio.current_time())
        match event:
            case Heartbeat():
                self._on_heartbeat(agent, event)
                return
            case TextArrived() | ReasoningArrived() | OutputArrived() | Waiting():
                agent.process.note_progress(trio.current_time())
                self._run.broadcast.publish_transient(TransientEvent(agent=agent.path, event=event))
                return
            case Hello():
                self._on_hello(agent, event, message)
                return
            case _ if not agent.process.hello.is_set():
                self._run.mailbox.acknowledge(message)  # events before the Hello are dropped
                return
            case RequestSent():
                self._on_request(agent, event, message)
                return
            case Goodbye():
                agent.process.note_goodbye()
                self._run.mailbox.acknowledge(message)
                return
            case _:
                agent.process.note_progress(trio.current_time())
                self._journal_event(agent, event, message)

    def _journal_event(self, agent: Agent, event: AnyEvent, message: ReceivedMessage) -> None:
        try:
            body, follow = self._record_for(agent, event)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._on_unreadable(message, error)
            return

        # These two need an urgent acknowledgement (as Goodbye does): the agent waits for it before
        # it runs the call, or before its next model request. With `watch` the reply carries it.
        soon = _is_output(event) or (isinstance(event, CallBegan) and event.watch is None)

        def written(record: Record) -> None:
            self._run.mailbox.acknowledge(message, soon=soon)
            self._run.broadcast.publish_record(record)
            if follow is not None:
                follow()

        if isinstance(event, CallBegan) and isinstance(event.detail, CommandCall):
            self._run.skills.note_command(event.detail.script)
        self._run.journal.write(body, agent=agent.path, file=agent.plan.agent_id, then=written)

    def _record_for(
        self, agent: Agent, event: AnyEvent
    ) -> tuple[AnyRecordBody, Callable[[], None] | None]:
        """The record of a durable event, and what to call once it is written."""
        if isinstance(event, PartEvent):
            self._parts.take(agent, event)
            return event, None
        match event:
            case ItemCompleted():
                agent.pending_inputs.discard(event.item_id)
                self._run.agents.on_item_read(agent, event.item_id)
                opened = ItemRecorded(
                    turn_id=event.turn_id,
                    item=decode_item(event.item),
                    item_id=event.item_id,
                    source=event.source,
                )
                agent.process.add_item(opened.item, from_model=event.source == "model")
                return opened, None
            case ContextReplaced():
                items = tuple(decode_item(item) for item in event.items)
                replaced = ContextRecorded(
                    turn_id=event.turn_id,
                    items=items,
                    summary=event.summary,
                    shortened=event.shortened,
                    undoes=event.undoes,
                    rolled_back=event.rolled_back,
                )
                return replaced, None
            case TurnStarted():
                # At once: the run is not over while this record is being written.
                self._agents.on_turn_started(agent, event.turn_id)
                return event, None
            case TurnCompleted() | TurnFailed() | TurnAborted():
                agent.end_turn()
                self._approvals.withdraw(agent)
                self._mcp.withdraw(agent)
                self.file_history.change_watcher.turn_ended(agent, event.turn_id)
                return event, partial(self._end_turn, agent, event)
            case CallBegan():
                agent.process.begin_call(event.call_id, event.tool)
                if event.watch is None:
                    return event, None
                journaled = trio.Event()
                self._nursery.start_soon(self._watch_files, agent, event, event.watch, journaled)
                return msgspec.structs.replace(event, watch=None), journaled.set
            case CallEnded():
                is_detached = event.session_id is not None
                agent.process.end_call(event.call_id, detached=is_detached)
                self.file_history.call_ended(event.call_id, detached=is_detached)
                return event, None
            case TokenCount():
                agent.process.end_response()
                return event, None
            case ProviderFallback():
                self._note_fallback(agent, event)
                return event, None
            case Warned() | HookRan():
                return event, None
            case Hello() | Heartbeat() | Goodbye() | RequestSent():
                raise AssertionError(f"{type(event).__name__} is no record")
            case TextArrived() | ReasoningArrived() | OutputArrived() | Waiting():
                raise AssertionError(f"{type(event).__name__} is passing")
            case _:
                assert_never(event)

    def _end_turn(self, agent: Agent, end: TurnEnd) -> None:
        """The end of a turn is written. What is in an agent's copy is known before its answer."""
        if agent.plan.limits.isolation == "copy" and agent.plan.reports:
            self._nursery.start_soon(self._end_copied_turn, agent, end)
        else:
            self._agents.on_turn_end(agent, end)

    async def _end_copied_turn(self, agent: Agent, end: TurnEnd) -> None:
        await self._change_measures.measure(agent)
        self._agents.on_turn_end(agent, end)

    def _note_fallback(self, agent: Agent, taken: ProviderFallback) -> None:
        """The agent's next process, also of a resumed run, stays with the provider."""
        plan = plan_after_fallback(agent.plan, taken)
        if plan is not None:
            agent.change_plan(plan)
            changed = SettingsChanged(agent_id=plan.agent_id, settings=settings_of(plan))
            self._run.note(changed, agent=agent.path)

    def _on_hello(self, agent: Agent, hello: Hello, message: ReceivedMessage) -> None:
        """Accept the first Hello with this process's secret and pid; kill the process on others."""
        process = agent.process
        is_ours = self._run.is_proven(agent.identity, hello)
        is_other = process.child is not None and process.child.pid != hello.pid
        if process.hello.is_set() or not is_ours or is_other:
            _log.warning("%s said a hello that is not its own; it is ended", agent.path)
            self._agents.kill_for_restart(agent, "it said a hello that was not its own")
        else:
            process.hello.set()
            self._warn_of_landlock(hello)
        self._run.mailbox.acknowledge(message)

    def _warn_of_landlock(self, hello: Hello) -> None:
        """Warn once per run: all its processes are on one machine."""
        if hello.lock_gap and not self._warned_of_landlock:
            self._warned_of_landlock = True
            self._run.note(Warned(message=_LANDLOCK_WARNINGS[hello.lock_gap]))

    def _on_heartbeat(self, agent: Agent, beat: Heartbeat) -> None:
        if agent.process.take_heartbeat(beat, now=trio.current_time()):
            self.file_history.change_watcher.commands_ended()
        self._run.broadcast.state.set_process_usage(agent.path, rss_bytes=beat.rss_bytes)
        limit_bytes = self._run.request.resources.agent_memory_bytes
        if limit_bytes is not None and beat.rss_bytes > limit_bytes:
            used, allowed = beat.rss_bytes >> 20, limit_bytes >> 20
            reason = f"its process used {used} MiB of {allowed} MiB (limits.agent_memory)"
            self._agents.kill_for_restart(agent, reason)

    def _on_request(self, agent: Agent, asked: RequestSent, message: ReceivedMessage) -> None:
        """Acknowledge the request on arrival: a slow one must not delay the messages behind it.

        If the agent's process ends, its request is dropped.
        """
        agent.process.note_progress(trio.current_time())
        self._run.mailbox.acknowledge(message, soon=False)
        if isinstance(asked.request, NonTeamRequest):
            self._nursery.start_soon(self._serve_request, agent, asked.request_id, asked.request)
        elif isinstance(asked.request, McpRequest):
            self._mcp.serve(agent, asked.request_id, asked.request)
        elif isinstance(asked.request, RequestApproval):
            self._approvals.serve(agent, asked.request_id, asked.request)
        elif isinstance(asked.request, ReportPermission):
            self._approvals.take_report(agent, asked.request_id, asked.request)
        elif isinstance(asked.request, PartRequest):
            self._parts.serve(agent, asked.request_id, asked.request)
        else:
            self._team_service.serve(agent, asked.request_id, asked.request)

    async def _watch_files(
        self, agent: Agent, begun: CallBegan, watch: FileWatch, journaled: trio.Event
    ) -> None:
        """Record the files while the begin is being written; reply when both are done."""
        request = WatchFiles(turn_id=begun.turn_id, call_id=begun.call_id, paths=watch.paths)
        reply = await self.file_history.change_watcher.call_starting(agent, request)
        await self.file_history.patch_locks.take(agent, begun.call_id, watch.paths)
        await journaled.wait()
        await self._reply(agent, watch.request_id, reply)

    async def _serve_request(
        self,
        agent: Agent,
        request_id: int,
        request: NonTeamRequest,
    ) -> None:
        reply: AnyReply
        if isinstance(request, StoreBlob):
            folder, redactor = self._run.paths.blobs, self._run.journal.redactor
            reply = await trio.to_thread.run_sync(store_blob, folder, request, redactor)
        elif isinstance(request, KeepFiles):
            reply = await self.file_history.take_snapshot(agent, request)
        elif isinstance(request, WatchFiles):
            reply = await self.file_history.change_watcher.call_starting(agent, request)
            await self.file_history.patch_locks.take(agent, request.call_id, request.paths)
        elif isinstance(request, PlanMerge | MergeCopies):
            reply = await serve_merge_request(self._run, self.file_history, agent, request)
        elif isinstance(request, SaveFiles):
            await self._run.hosts.bring_layers(agent.plan.agent_id)
            reply = FilesSaved()
        elif isinstance(request, ListChanges):
            reply = await self.file_history.list_changes(agent)
        elif agent.plan.host:
            reply = RequestRefused(message="its machine has an environment of its own")
        else:
            reply = EnvironmentReply(variables=await self._shell.get())
            if why := self._shell.take_problem():
                self._run.note(Warned(message=why))
        await self._reply(agent, request_id, reply)

    async def _reply(self, agent: Agent, request_id: int, reply: AnyReply) -> None:
        try:
            await self._run.send(agent, Answer(request_id=request_id, reply=reply))
        except PeerGone:
            return  # its process ended meanwhile; nobody waits for the reply


def _is_output(event: AnyEvent) -> bool:
    return isinstance(event, ItemCompleted) and event.source == "tool"
