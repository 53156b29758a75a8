"""Receives agents' `RequestApproval` requests, passes each to the broker and sends the answer back.

A request ends with the agent process and the turn that made it: if the process dies or the turn is
interrupted or ends, the request is withdrawn, and nobody waits for an answer. Every other request
gets exactly one answer, a refused one too.
"""

from typing import NamedTuple

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.ops import Answer
from swarm.mailbox.protocol.requests import Decided, RequestApproval

from ..agents.agent_record import Agent
from ..run_context import RunContext
from .approval_types import Decider
from .refusal_texts import unavailable_text

MAX_SERVED = 256  # requests of one agent at once; the agent's own limit is far below
_Process = tuple[str, int]  # path, epoch: a new process numbers its requests from the start


class _ServedRequest(NamedTuple):
    request: RequestApproval
    scope: trio.CancelScope


class ApprovalEndpoint:
    """Serves approval requests concurrently; its tasks run in the event router's nursery."""

    def __init__(self, running: RunContext, decider: Decider, nursery: trio.Nursery) -> None:
        self._run, self._decider, self._nursery = running, decider, nursery
        self._served: dict[_Process, dict[int, _ServedRequest]] = {}  # by request id

    def serve(self, agent: Agent, request_id: int, request: RequestApproval) -> None:
        """Start serving one request. Never waits.

        A repeated request gets the answer of the first one. One that reuses an open number for
        something else, and one beyond the limit, is refused.
        """
        served = self._served.setdefault((agent.path, agent.epoch), {})
        if (first := served.get(request_id)) is not None:
            if first.request != request:
                self._refuse(agent, request_id, request, "its number belongs to an open question")
        elif len(served) >= MAX_SERVED:
            why = f"{MAX_SERVED} questions of this agent wait already"
            self._refuse(agent, request_id, request, why)
        else:
            served[request_id] = _ServedRequest(request, trio.CancelScope())
            agent.begin_question()
            self._nursery.start_soon(self._serve, agent, request_id, served[request_id])

    def withdraw(self, agent: Agent) -> None:
        """The agent's turn is over: cancel all its requests."""
        for one in self._served.get((agent.path, agent.epoch), {}).values():
            one.scope.cancel()

    def _refuse(self, agent: Agent, request_id: int, request: RequestApproval, why: str) -> None:
        refused = Decided(outcome="unavailable", text=unavailable_text(request.approval, why))
        self._nursery.start_soon(self._answer, agent, request_id, refused)

    async def _serve(self, agent: Agent, request_id: int, served: _ServedRequest) -> None:
        epoch, decided = agent.epoch, list[Decided]()
        try:
            with served.scope as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._cancel_when_ended, agent, scope)
                    decided.append(await self._decider.decide(agent.path, served.request.approval))
                    nursery.cancel_scope.cancel()
        finally:
            agent.end_question()
            self._forget((agent.path, epoch), request_id)
        if decided and agent.epoch == epoch:
            await self._answer(agent, request_id, decided[0])

    async def _answer(self, agent: Agent, request_id: int, decided: Decided) -> None:
        try:
            await self._run.send(agent, Answer(request_id=request_id, reply=decided))
        except PeerGone:
            return  # it ended in the meantime; nobody waits

    async def _cancel_when_ended(self, agent: Agent, scope: trio.CancelScope) -> None:
        if agent.process.child is not None:
            await agent.process.child.wait_ended()
            scope.cancel()

    def _forget(self, process: _Process, request_id: int) -> None:
        served = self._served[process]
        del served[request_id]
        if not served:
            del self._served[process]
