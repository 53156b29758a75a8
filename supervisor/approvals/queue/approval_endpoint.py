"""Receives agents' `RequestApproval` requests, passes each to the broker and sends the answer back.

A request ends with the agent process and the turn that made it: if the process dies or the turn is
interrupted or ends, the request is withdrawn, and nobody waits for an answer. Every other request
gets exactly one answer, a refused one too.
"""

import trio

from swarm.mailbox.protocol.requests import Decided, ReportPermission, RequestApproval

from ...agents.agent_record import Agent
from ...context.run_context import RunContext
from ...context.served_requests import ServedRequests
from ..approval_types import Decider
from ..refusal_texts import unavailable_text
from .permission_hooks import PermissionHooks

MAX_SERVED = 256  # requests of one agent at once; the agent's own limit is far below


class ApprovalEndpoint:
    """Serves approval requests concurrently; its tasks run in the event router's nursery."""

    def __init__(
        self, running: RunContext, decider: Decider, hooks: PermissionHooks, nursery: trio.Nursery
    ) -> None:
        self._decider, self._hooks = decider, hooks
        self._served = ServedRequests[RequestApproval](running, nursery)

    def serve(self, agent: Agent, request_id: int, request: RequestApproval) -> None:
        """Start serving one request. Never waits.

        A repeated request gets the answer of the first one. One that reuses an open number for
        something else, and one beyond the limit, is refused.
        """
        if (first := self._served.find(agent, request_id)) is not None:
            if first != request:
                self._refuse(agent, request_id, request, "its number belongs to an open question")
        elif self._served.count(agent) >= MAX_SERVED:
            why = f"{MAX_SERVED} questions of this agent wait already"
            self._refuse(agent, request_id, request, why)
        else:
            agent.begin_question()
            self._served.begin(agent, request_id, request, self._decide, ended=agent.end_question)

    def take_report(self, agent: Agent, request_id: int, report: ReportPermission) -> None:
        """Take what an agent's hooks say. Never waits."""
        reply = self._hooks.take_report(agent, report)
        self._served.answer_at_once(agent, request_id, reply)

    def withdraw(self, agent: Agent) -> None:
        """The agent's turn is over: cancel all its requests."""
        self._served.withdraw(agent)

    def _refuse(self, agent: Agent, request_id: int, request: RequestApproval, why: str) -> None:
        text = unavailable_text(request.approval, why)
        self._served.answer_at_once(agent, request_id, Decided(outcome="unavailable", text=text))

    async def _decide(self, agent: Agent, request: RequestApproval) -> Decided:
        return await self._decider.decide(agent.path, request.approval)
