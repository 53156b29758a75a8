"""Routes every message of every child process once, in order.

Durable events are journaled, then acknowledged, then shown; transient events are only shown. Who
takes an event is in `event_table.py`, who serves a request in `request_table.py`. A message that
cannot be decoded is counted and acknowledged (the first one is also logged); it never ends the
supervisor.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.delivery.interfaces import ReceivedMessage
from swarm.mailbox.protocol.control import TransientEvent
from swarm.mailbox.protocol.events import (
    AnyEvent,
    CallBegan,
    DurableEvent,
    Goodbye,
    Heartbeat,
    Hello,
    ItemCompleted,
    OutputArrived,
    ReasoningArrived,
    RequestSent,
    TextArrived,
    Waiting,
    decode_event,
)
from swarm.mailbox.protocol.records import Record

from ..agents.agent_record import Agent
from ..agents.life.agent_manager import AgentManager
from ..context.run_context import RunContext
from ..context.service_process import Service
from ..parts.undo.live.file_history import FileHistory
from .agent_presence import AgentPresence
from .event_table import EventTable
from .request_table import RequestTable

_log = logging.getLogger("swarm.event_router")


class Tables(NamedTuple):
    """Who takes what agents send."""

    presence: AgentPresence
    events: EventTable
    requests: RequestTable


def open_tables(
    running: RunContext,
    agents: AgentManager,
    history: FileHistory,
    requests: RequestTable,
    nursery: trio.Nursery,
) -> Tables:
    """Their tasks run in the nursery."""
    events = EventTable(running, agents, history, requests, nursery)
    return Tables(AgentPresence(running, agents, history), events, requests)


class EventRouter:
    """Handles each message at the moment of its arrival, without waiting."""

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        services: Iterable[Service],
        tables: Tables,
    ) -> None:
        self._run = running
        self._agents = agents
        self._services = services
        self._tables = tables
        self.unreadable_count = 0

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
        now = trio.current_time()
        agent.process.note_heartbeat(now)
        match event:
            case Heartbeat():
                self._tables.presence.note_beat(agent, event)
            case TextArrived() | ReasoningArrived() | OutputArrived() | Waiting():
                agent.process.note_progress(now)
                self._run.broadcast.publish_transient(TransientEvent(agent=agent.path, event=event))
            case Hello():
                self._tables.presence.greet(agent, event)
                self._run.mailbox.acknowledge(message)
            case _ if not agent.process.hello.is_set():
                self._run.mailbox.acknowledge(message)  # events before the Hello are dropped
            case RequestSent():
                # Acknowledged on arrival: a slow request must not delay the messages behind it.
                # If the agent's process ends, its request is dropped.
                agent.process.note_progress(now)
                self._run.mailbox.acknowledge(message, soon=False)
                self._tables.requests.serve(agent, event.request_id, event.request)
            case Goodbye():
                agent.process.note_goodbye()
                self._run.mailbox.acknowledge(message)
            case _:
                agent.process.note_progress(now)
                self._journal_event(agent, event, message)

    def _journal_event(self, agent: Agent, event: DurableEvent, message: ReceivedMessage) -> None:
        try:
            body, follow = self._tables.events.take(agent, event)
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

        self._run.journal.write(body, agent=agent.path, file=agent.plan.agent_id, then=written)


def _is_output(event: AnyEvent) -> bool:
    return isinstance(event, ItemCompleted) and event.source == "tool"
