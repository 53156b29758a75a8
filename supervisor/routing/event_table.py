"""What a durable event of an agent means: who is told of it, and its record. The table.

The type checker names an event that nobody takes.
"""

from collections.abc import Callable
from functools import partial
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.parts.part_messages import PartEvent
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    ContextReplaced,
    DurableEvent,
    HookRan,
    ItemCompleted,
    ProviderFallback,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnEnd,
    TurnFailed,
    TurnStarted,
    Warned,
)
from swarm.mailbox.protocol.items import decode_item
from swarm.mailbox.protocol.records import (
    AnyRecordBody,
    ContextRecorded,
    ItemRecorded,
    SettingsChanged,
)

from ..agents.agent_fallback import plan_after_fallback
from ..agents.agent_record import Agent
from ..agents.life.agent_manager import AgentManager
from ..agents.settings_change import settings_of
from ..context.run_context import RunContext
from ..parts.copies.live.change_measures import ChangeMeasures
from ..parts.undo.live.file_history import FileHistory
from .request_table import RequestTable

Taken = tuple[AnyRecordBody, Callable[[], None] | None]
"""The record of an event, and what to call once it is written."""


class EventTable:
    """Takes each event at the moment of its arrival, before it is journaled. Never waits."""

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        history: FileHistory,
        services: RequestTable,
        nursery: trio.Nursery,
    ) -> None:
        self._run = running
        self._agents = agents
        self._history = history
        self._services = services
        self._nursery = nursery
        self._change_measures = ChangeMeasures(running)

    def take(self, agent: Agent, event: DurableEvent) -> Taken:
        """Raises DecodeError and UnicodeDecodeError, before anybody was told."""
        if isinstance(event, PartEvent):
            self._services.parts.take(agent, event)
            return event, None
        match event:
            case ItemCompleted():
                return self._item(agent, event), None
            case ContextReplaced():
                return _context(event), None
            case TurnStarted():
                # At once: the run is not over while this record is being written.
                self._agents.on_turn_started(agent, event.turn_id)
                return event, None
            case TurnCompleted() | TurnFailed() | TurnAborted():
                return event, self._turn_end(agent, event)
            case CallBegan():
                return self._call_begin(agent, event)
            case CallEnded():
                is_detached = event.session_id is not None
                agent.process.end_call(event.call_id, detached=is_detached)
                self._history.call_ended(event.call_id, detached=is_detached)
                return event, None
            case TokenCount():
                agent.process.end_response()
                return event, None
            case ProviderFallback():
                self._note_fallback(agent, event)
                return event, None
            case Warned() | HookRan():
                return event, None
            case _:
                assert_never(event)

    def _item(self, agent: Agent, event: ItemCompleted) -> ItemRecorded:
        opened = ItemRecorded(
            turn_id=event.turn_id,
            item=decode_item(event.item),
            item_id=event.item_id,
            source=event.source,
        )
        agent.pending_inputs.discard(event.item_id)
        self._run.agents.on_item_read(agent, event.item_id)
        agent.process.add_item(opened.item, from_model=event.source == "model")
        return opened

    def _call_begin(self, agent: Agent, event: CallBegan) -> Taken:
        if isinstance(event.detail, CommandCall):
            self._run.skills.note_command(event.detail.script)
        agent.process.begin_call(event.call_id, event.tool)
        if event.watch is None:
            return event, None
        journaled = self._services.files.watch(agent, event, event.watch)
        return msgspec.structs.replace(event, watch=None), journaled.set

    def _turn_end(self, agent: Agent, event: TurnEnd) -> Callable[[], None]:
        agent.end_turn()
        self._services.approvals.withdraw(agent)
        self._services.mcp.withdraw(agent)
        self._history.change_watcher.turn_ended(agent, event.turn_id)
        return partial(self._end_turn, agent, event)

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


def _context(event: ContextReplaced) -> ContextRecorded:
    return ContextRecorded(
        turn_id=event.turn_id,
        items=tuple(decode_item(item) for item in event.items),
        summary=event.summary,
        shortened=event.shortened,
        undoes=event.undoes,
        rolled_back=event.rolled_back,
    )
