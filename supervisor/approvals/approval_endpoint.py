"""Receives agents' `RequestApproval` requests, passes each to the broker and sends the answer back.

A request ends with the agent process and the turn that made it: if the process dies or the turn is
interrupted or ends, the request is withdrawn.
"""

from collections.abc import Callable

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.ops import Answer, Notice
from swarm.mailbox.protocol.records import AnyRecordBody, Record
from swarm.mailbox.protocol.requests import Decided, RequestApproval

from ..agents.live_agent import LiveAgent
from ..run_context import RunContext
from .approval_types import Decider
from .refusal_texts import granted_notice

_MAX_WAITING = 256  # requests of one agent that are being served at once


class RunApprovalJournal:
    """A `broker.ApprovalJournal` that writes to the run's own journal file and broadcasts each
    record as it was written.
    """

    def __init__(self, running: RunContext) -> None:
        self._run = running

    def put(
        self, body: AnyRecordBody, *, agent: str, then: Callable[[Record], None] | None = None
    ) -> None:
        def written(record: Record) -> None:
            self._run.broadcast.publish_record(record)
            if then is not None:
                then(record)

        self._run.journal.write(body, agent=agent, then=written)


class ApprovalEndpoint:
    """Serves approval requests concurrently; its tasks run in the dispatcher's nursery."""

    def __init__(self, running: RunContext, decider: Decider, nursery: trio.Nursery) -> None:
        self._run, self._decider, self._nursery = running, decider, nursery
        self._open: dict[str, dict[int, trio.CancelScope]] = {}  # path → request id → task

    def serve(self, agent: LiveAgent, request_id: int, review: RequestApproval) -> None:
        """Start serving one request. Never waits."""
        asked = self._open.setdefault(agent.path, {})
        if request_id in asked or len(asked) >= _MAX_WAITING:
            return  # the agent's own limit is far below; a request beyond this gets no answer
        scope = trio.CancelScope()
        asked[request_id] = scope
        agent.open_questions += 1
        self._nursery.start_soon(self._serve, agent, request_id, review, scope)

    def withdraw(self, agent: LiveAgent) -> None:
        """The agent's turn is over: cancel all its requests."""
        for scope in self._open.get(agent.path, {}).values():
            scope.cancel()

    async def _serve(
        self, agent: LiveAgent, request_id: int, review: RequestApproval, scope: trio.CancelScope
    ) -> None:
        epoch, decided = agent.epoch, list[Decided]()
        try:
            with scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._cancel_when_ended, agent, scope)
                    decided.append(await self._decider.decide(agent.path, review.approval))
                    nursery.cancel_scope.cancel()
        finally:
            agent.open_questions -= 1
            self._forget(agent.path, request_id)
        if decided and agent.epoch == epoch:
            try:
                await self._run.send(agent, Answer(request_id=request_id, reply=decided[0]))
            except PeerGone:
                return  # it ended in the meantime; nobody waits

    async def _cancel_when_ended(self, agent: LiveAgent, scope: trio.CancelScope) -> None:
        if agent.child is not None:
            await agent.child.wait_ended()
            scope.cancel()

    def _forget(self, path: str, request_id: int) -> None:
        asked = self._open.get(path, {})
        asked.pop(request_id, None)
        if not asked:
            self._open.pop(path, None)


class OverruleNotifier:
    """Sends an agent a notice when a person has overruled the reviewer."""

    def __init__(
        self,
        running: RunContext,
        nursery: trio.Nursery,
        find: Callable[[str], LiveAgent | None],
    ) -> None:
        self._run, self._nursery, self._find = running, nursery, find

    def notify(self, agent: str, approval_id: str) -> None:
        """Never waits; an agent that is gone gets no notice."""
        if (life := self._find(agent)) is not None:
            self._nursery.start_soon(self._send_notice, life, granted_notice(approval_id))

    async def _send_notice(self, life: LiveAgent, text: str) -> None:
        try:
            await self._run.send(life, Notice(notice_id=self._run.entropy.new_id(), text=text))
        except PeerGone:
            return
