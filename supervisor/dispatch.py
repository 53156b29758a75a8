"""The supervisor's ear: every letter of every child passes here, once, in order.

Durable events are journaled, then acknowledged, then shown; passing ones are only shown. A letter
that cannot be read is counted, logged once and acknowledged: it never ends the supervisor.
"""

import logging
from collections.abc import Callable
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.post import Letter
from swarm.mailbox.protocol.control import Passed
from swarm.mailbox.protocol.events import (
    AnyEvent,
    Asked,
    CallBegan,
    CallEnded,
    ContextReplaced,
    Goodbye,
    Heartbeat,
    Hello,
    ItemCompleted,
    OutputArrived,
    ReasoningArrived,
    TextArrived,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Waiting,
    Warned,
    decode_event,
)
from swarm.mailbox.protocol.items import decode_item
from swarm.mailbox.protocol.ops import Answer
from swarm.mailbox.protocol.records import AnyRecordBody, ContextRecorded, ItemRecorded, Record
from swarm.mailbox.protocol.requests import (
    AnyReply,
    EnvironmentIs,
    Errand,
    KeepFiles,
    ListChanges,
    Review,
    StoreBlob,
    WatchFiles,
)
from swarm.mailbox.proxies import PROXY_NAMES

from .agency.agency import Agency
from .agents import LiveAgent
from .approvals.desk import Desk
from .blobs import keep_picture
from .control import Control
from .keeper import Keeper
from .keeping.keeping import Keeping
from .lock_words import LOCK_GAPS
from .network.keeper import ProxyKeeper
from .running import Running
from .snapshot import ShellSnapshot
from .turns import on_turn_end

_log = logging.getLogger("swarm.dispatch")


class Dispatch:
    """Takes each letter in the moment in which it arrives, and waits for nothing."""

    def __init__(
        self,
        running: Running,
        control: Control,
        keeper: Keeper,
        agency: Agency,
        desk: Desk,
        nursery: trio.Nursery,
    ) -> None:
        self._run, self._control, self._keeper, self._nursery = running, control, keeper, nursery
        self._agency, self._desk = agency, desk
        self.proxy: ProxyKeeper | None = None
        self.keeping = Keeping(running, nursery)
        self.unreadable = 0
        self._told_of_lock = False
        request = running.request
        withheld = set(request.keys).union(
            *({one.env_key or "", *one.env_http_headers.values()} for one in request.providers)
        )
        if request.goes_upstream:
            withheld.update(*((name, name.lower()) for name in PROXY_NAMES))
        self._shell = ShellSnapshot(
            request.environment, withheld=withheld, asked=request.shell_snapshot
        )

    async def run(self) -> None:
        """Take letters as they arrive, until cancelled."""
        await self._run.office.hand_on(self._take)

    def _take(self, letter: Letter) -> bool:
        if self._keeper.is_gateway(letter.peer):
            self._keeper.on_letter(letter)
        elif self.proxy is not None and self.proxy.is_proxy(letter.peer):
            self.proxy.on_letter(letter)
        elif (agent := self._control.of_peer(letter.peer)) is not None:
            try:
                event = decode_event(letter.body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self._unreadable(letter, error)
            else:
                self._on_event(agent, event, letter)
        # else its process has ended; the journal has what it acknowledged
        return False

    def _unreadable(self, letter: Letter, error: Exception) -> None:
        self.unreadable += 1
        if self.unreadable == 1:
            _log.warning("a message of %r could not be read: %s", letter.peer, error)
        self._run.office.handled(letter)

    def _on_event(self, agent: LiveAgent, event: AnyEvent, letter: Letter) -> None:
        agent.last_beat = trio.current_time()
        match event:
            case Heartbeat():
                self._on_beat(agent, event)
                return
            case TextArrived() | ReasoningArrived() | OutputArrived() | Waiting():
                self._progress(agent)
                self._run.showing.passing(Passed(agent=agent.path, event=event))
                return
            case Hello():
                self._on_hello(agent, event, letter)
                return
            case _ if not agent.hello.is_set():
                self._run.office.handled(letter)  # nobody is believed before its Hello
                return
            case Asked():
                self._on_asked(agent, event, letter)
                return
            case Goodbye():
                agent.orderly = True
                self._run.office.handled(letter)
                return
            case _:
                self._progress(agent)
                self._record(agent, event, letter)

    def _record(self, agent: LiveAgent, event: AnyEvent, letter: Letter) -> None:
        try:
            body, follow = self._body_of(agent, event)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._unreadable(letter, error)
            return

        # Waited for, as what a Goodbye ends: a call is about to run, a request about to be sent.
        soon = isinstance(event, CallBegan) or _is_output(event)

        def written(record: Record) -> None:
            self._run.office.handled(letter, soon=soon)
            self._run.showing.record(record)
            if follow is not None:
                follow()

        self._run.journal.write(body, agent=agent.path, file=agent.plan.agent_id, then=written)

    def _body_of(
        self, agent: LiveAgent, event: AnyEvent
    ) -> tuple[AnyRecordBody, Callable[[], None] | None]:
        """The record of a durable event, and what follows once it is written."""
        match event:
            case ItemCompleted():
                agent.untaken.discard(event.item_id)
                if (mail := agent.letters.pop(event.item_id, None)) is not None:
                    self._control.watcher.read(agent, mail)
                if event.source == "model":
                    agent.responding = True
                opened = ItemRecorded(
                    turn_id=event.turn_id,
                    item=decode_item(event.item),
                    item_id=event.item_id,
                    source=event.source,
                )
                agent.heed_calls(opened.item)
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
                agent.begin_turn(event.turn_id)
                self._control.reopen(agent)  # at once: a run is not over while its turn is written
                return event, None
            case TurnCompleted() | TurnFailed() | TurnAborted():
                agent.turn, agent.responding = None, False
                agent.ending += 1
                agent.open_calls.clear()
                self._desk.withdraw(agent)
                self.keeping.watching.turn_ended(agent, event.turn_id)
                return event, lambda: on_turn_end(self._control, agent, event)
            case CallBegan():
                agent.open_calls[event.call_id] = event.tool
                agent.unbegun.discard(event.call_id)
                return event, None
            case CallEnded():
                agent.open_calls.pop(event.call_id, None)
                self.keeping.call_ended(event.call_id, detached=event.session_id is not None)
                agent.left_command |= event.session_id is not None
                return event, None
            case TokenCount():
                agent.responding = False
                return event, None
            case Warned():
                return event, None
            case Hello() | Heartbeat() | Goodbye() | Asked():
                raise AssertionError(f"{type(event).__name__} is no record")
            case TextArrived() | ReasoningArrived() | OutputArrived() | Waiting():
                raise AssertionError(f"{type(event).__name__} is passing")
            case _:
                assert_never(event)

    def _on_hello(self, agent: LiveAgent, hello: Hello, letter: Letter) -> None:
        """Believe the first Hello with this life's secret and pid; refuse any other."""
        child = agent.child
        is_ours = self._run.is_proven(agent.identity, hello)
        if agent.hello.is_set() or not is_ours or (child is not None and child.pid != hello.pid):
            _log.warning("%s said a hello that is not its own; it is ended", agent.path)
            self._control.strike(agent, "it said a hello that was not its own")
        else:
            agent.hello.set()
            self._tell_of_lock(hello)
        self._run.office.handled(letter)

    def _tell_of_lock(self, hello: Hello) -> None:
        """Once a run: all its processes are on one machine."""
        if hello.lock_gap and not self._told_of_lock:
            self._told_of_lock = True
            self._run.note(Warned(message=LOCK_GAPS[hello.lock_gap]))

    def _on_beat(self, agent: LiveAgent, beat: Heartbeat) -> None:
        agent.busy, agent.live_commands = beat.busy, beat.live_commands
        if agent.left_command and not beat.live_commands:
            agent.left_command = False
            self.keeping.watching.commands_over()
        if beat.progress != agent.progress:
            agent.progress = beat.progress
            self._progress(agent)
        self._run.showing.state.note_process(agent.path, rss_bytes=beat.rss_bytes)
        bound = self._run.request.resources.agent_memory_bytes
        if bound is not None and beat.rss_bytes > bound:
            used, allowed = beat.rss_bytes >> 20, bound >> 20
            words = f"its process used {used} MiB of {allowed} MiB (limits.agent_memory)"
            self._control.strike(agent, words)

    def _progress(self, agent: LiveAgent) -> None:
        agent.progress_at = trio.current_time()
        agent.reported_stuck = False

    def _on_asked(self, agent: LiveAgent, asked: Asked, letter: Letter) -> None:
        """Acknowledged as it comes: some requests take long, and what is said behind them does
        not wait. If the agent dies, so does its wish.
        """
        self._progress(agent)
        self._run.office.handled(letter, soon=False)
        if isinstance(asked.request, Errand):
            self._nursery.start_soon(self._answer, agent, asked.request_id, asked.request)
        elif isinstance(asked.request, Review):
            self._desk.serve(agent, asked.request_id, asked.request)
        else:
            self._agency.serve(agent, asked.request_id, asked.request)

    async def _answer(
        self,
        agent: LiveAgent,
        request_id: int,
        request: Errand,
    ) -> None:
        reply: AnyReply
        if isinstance(request, StoreBlob):
            folder, redactor = self._run.places.blobs, self._run.journal.redactor
            reply = await trio.to_thread.run_sync(keep_picture, folder, request, redactor)
        elif isinstance(request, KeepFiles):
            reply = await self.keeping.keep(agent, request)
        elif isinstance(request, WatchFiles):
            reply = await self.keeping.watching.begin(agent, request)
        elif isinstance(request, ListChanges):
            reply = await self.keeping.list_changes(agent)
        else:
            reply = EnvironmentIs(variables=await self._shell.get())
        try:
            await self._run.send(agent, Answer(request_id=request_id, reply=reply))
        except PeerGone:
            return  # it ended meanwhile; nobody waits


def _is_output(event: AnyEvent) -> bool:
    return isinstance(event, ItemCompleted) and event.source == "tool"
