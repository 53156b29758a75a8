"""Where agents' `RequestApproval` requests arrive: each is put to the broker, and its answer sent
back.

Rule: a question lives no longer than the life and the turn that asked it; whoever dies, is
interrupted or ends its turn has withdrawn what it asked.
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

_MAX_WAITING = 256  # reviews of one agent that are under way, whatever becomes of them


class RunApprovalJournal:
    """A `broker.ApprovalJournal`: into the run's own file, and shown as it was written."""

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
    """Serves reviews beside everything else; owned by dispatch's nursery."""

    def __init__(self, running: RunContext, decider: Decider, nursery: trio.Nursery) -> None:
        self._run, self._decider, self._nursery = running, decider, nursery
        self._open: dict[str, dict[int, trio.CancelScope]] = {}  # path → request → its task

    def serve(self, agent: LiveAgent, request_id: int, review: RequestApproval) -> None:
        """Begin one review. Never waits."""
        asked = self._open.setdefault(agent.path, {})
        if request_id in asked or len(asked) >= _MAX_WAITING:
            return  # the agent's own limit is far below; who floods gets no answer
        scope = trio.CancelScope()
        asked[request_id] = scope
        agent.open_questions += 1
        self._nursery.start_soon(self._serve, agent, request_id, review, scope)

    def withdraw(self, agent: LiveAgent) -> None:
        """Its turn is over: what it asked is not waited for any more."""
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
                return  # it ended meanwhile; nobody waits

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
    """Tells an agent that a person has overruled the reviewer."""

    def __init__(
        self,
        running: RunContext,
        nursery: trio.Nursery,
        find: Callable[[str], LiveAgent | None],
    ) -> None:
        self._run, self._nursery, self._find = running, nursery, find

    def notify(self, agent: str, approval_id: str) -> None:
        """Never waits; an agent that is gone is not told."""
        if (life := self._find(agent)) is not None:
            self._nursery.start_soon(self._send_notice, life, granted_notice(approval_id))

    async def _send_notice(self, life: LiveAgent, text: str) -> None:
        try:
            await self._run.send(life, Notice(notice_id=self._run.entropy.new_id(), text=text))
        except PeerGone:
            return
