"""Requests of agents that are being served, each in a task of its own.

A request ends with the process and the turn that made it: if the process dies, or the turn is
interrupted or ends, it is withdrawn, and nobody waits for an answer.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.protocol.ops import Answer
from swarm.mailbox.protocol.requests import AnyReply

from ..agents.agent_record import Agent
from .run_context import RunContext

RequestT = TypeVar("RequestT")
_Process = tuple[str, int]  # path, epoch: a new process numbers its requests from the start


class _Served(NamedTuple, Generic[RequestT]):
    request: RequestT
    scope: trio.CancelScope


class ServedRequests(Generic[RequestT]):
    """The open requests of one kind. Its tasks run in `nursery`, and end with it."""

    def __init__(self, running: RunContext, nursery: trio.Nursery) -> None:
        self._run, self._nursery = running, nursery
        self._open: dict[_Process, dict[int, _Served[RequestT]]] = {}  # by request id

    def find(self, agent: Agent, request_id: int) -> RequestT | None:
        """The open request of that number, or None."""
        found = self._open.get((agent.path, agent.epoch), {}).get(request_id)
        return found.request if found is not None else None

    def count(self, agent: Agent) -> int:
        """Number of open requests of this agent's process."""
        return len(self._open.get((agent.path, agent.epoch), {}))

    def begin(
        self,
        agent: Agent,
        request_id: int,
        request: RequestT,
        reply_to: Callable[[Agent, RequestT], Awaitable[AnyReply]],
        *,
        ended: Callable[[], None] | None = None,
    ) -> None:
        """Serve a request: send what `reply_to` returns. `ended` is called in every case."""
        served = _Served(request, trio.CancelScope())
        self._open.setdefault((agent.path, agent.epoch), {})[request_id] = served
        self._nursery.start_soon(self._serve, agent, request_id, served, reply_to, ended)

    def answer_at_once(self, agent: Agent, request_id: int, reply: AnyReply) -> None:
        """Answer a request without serving it. Never waits."""
        self._nursery.start_soon(self._answer, agent, request_id, reply)

    def withdraw(self, agent: Agent) -> None:
        """The agent's turn is over: cancel all its requests."""
        for one in self._open.get((agent.path, agent.epoch), {}).values():
            one.scope.cancel()

    async def _serve(
        self,
        agent: Agent,
        request_id: int,
        served: _Served[RequestT],
        reply_to: Callable[[Agent, RequestT], Awaitable[AnyReply]],
        ended: Callable[[], None] | None,
    ) -> None:
        epoch, replies = agent.epoch, list[AnyReply]()
        try:
            with served.scope as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_cancel_when_ended, agent, scope)
                    replies.append(await reply_to(agent, served.request))
                    nursery.cancel_scope.cancel()
        finally:
            if ended is not None:
                ended()
            self._forget((agent.path, epoch), request_id)
        if replies and agent.epoch == epoch:
            await self._answer(agent, request_id, replies[0])

    async def _answer(self, agent: Agent, request_id: int, reply: AnyReply) -> None:
        try:
            await self._run.send(agent, Answer(request_id=request_id, reply=reply))
        except PeerGone:
            return  # it ended in the meantime; nobody waits

    def _forget(self, process: _Process, request_id: int) -> None:
        served = self._open[process]
        del served[request_id]
        if not served:
            del self._open[process]


async def _cancel_when_ended(agent: Agent, scope: trio.CancelScope) -> None:
    if agent.process.child is not None:
        await agent.process.child.wait_ended()
        scope.cancel()
