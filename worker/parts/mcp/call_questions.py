"""What one server asks a person or a model during its calls: bounded, each for a call.

A server may ask only while a call runs. Older revisions of the protocol do not say for which one:
then the question belongs to the oldest call of the connection, and names them all.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple, Protocol, TypeVar, cast

import mcp_types
import trio

from swarm.mailbox.base.bounded_formats import decode_json
from swarm.mailbox.protocol.elicitation import ElicitationAction, ElicitationAnswer
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.server_sampling import SamplingAction, SamplingAnswer

from .elicitation_form import ElicitationRefused, read_elicitation
from .running_call import RunningCall
from .sampling_request import SamplingRefused, read_sampling, sampling_result

MAX_OPEN = 4  # questions of one connection at once
MAX_OF_CALL = 12  # questions during one call
MAX_TOGETHER = 5  # pages that a call may require before it can be made
_OUTSIDE = "something can be asked only while a tool's call runs"
_TOO_MANY = "this server has asked too often ({why}); nobody is asked"
_SAMPLING_OFF = "this server may not ask a model (`sampling` in its table)"
_CALL_OVER = "the call is over"
_Values = dict[str, list[str] | str | int | float | bool | None]
_Reply = TypeVar("_Reply")


class PersonReply(NamedTuple):
    answer: ElicitationAnswer
    content: bytes = b"{}"  # a JSON object


class AnswersServers(Protocol):
    """The way to a person, and to the model of the agent that calls."""

    async def ask(self, requests: tuple[int, ...], action: ElicitationAction) -> PersonReply:
        """Ask for the first of these calls. Raises nothing but Cancelled, which withdraws it."""
        ...

    async def sample(self, requests: tuple[int, ...], action: SamplingAction) -> SamplingAnswer:
        """Ask the model of the agent of the first of these calls. Raises as `ask`."""
        ...


class CallQuestions:
    """The questions of one connection."""

    def __init__(self, server: McpServer, answers: AnswersServers) -> None:
        self._server, self._answers = server, answers
        self._calls: list[RunningCall] = []  # oldest first
        self._open = 0

    @contextmanager
    def during(self, call: RunningCall) -> Iterator[None]:
        """The server may ask for this call within the block; then its open questions end."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            call.ended.set()

    async def elicit(
        self, params: mcp_types.ElicitRequestParams, call: RunningCall | None = None
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Ask a person; what cannot be asked is an error that says why.

        Args:
            call: For which call, where the protocol says so.
        """
        calls = [call] if call is not None else list(self._calls)
        if why := self._refusal(calls):
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=why)
        try:
            action = read_elicitation(params, server=self._server.name, tool=calls[0].tool)
        except ElicitationRefused as refused:
            return mcp_types.ErrorData(code=mcp_types.INVALID_PARAMS, message=str(refused))
        requests = tuple(one.request for one in calls)
        reply = await self._wait(calls, partial(self._answers.ask, requests, action))
        return _as_result(reply or PersonReply("cancel"), action)

    async def sample(
        self, params: mcp_types.CreateMessageRequestParams, call: RunningCall | None = None
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        """Ask the model of the calling agent, if the server's table allows it; as `elicit`."""
        calls = [call] if call is not None else list(self._calls)
        why = _SAMPLING_OFF if self._server.sampling == "off" else self._refusal(calls)
        if why:
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=why)
        try:
            action = read_sampling(params, server=self._server.name, tool=calls[0].tool)
        except SamplingRefused as refused:
            return mcp_types.ErrorData(code=mcp_types.INVALID_PARAMS, message=str(refused))
        requests = tuple(one.request for one in calls)
        answer = await self._wait(calls, partial(self._answers.sample, requests, action))
        return sampling_result(answer or SamplingAnswer(fault=_CALL_OVER))

    async def visit(
        self, pages: Sequence[mcp_types.ElicitRequestURLParams], call: RunningCall
    ) -> bool:
        """Ask for the pages that a call requires first; True if a person will open them all."""
        for page in pages[:MAX_TOGETHER]:
            result = await self.elicit(page, call)
            if isinstance(result, mcp_types.ErrorData) or result.action != "accept":
                return False
        return 0 < len(pages) <= MAX_TOGETHER

    def _refusal(self, calls: Sequence[RunningCall]) -> str:
        """Why this question cannot be asked; "" if it can. It counts from now on."""
        if not calls:
            return _OUTSIDE
        if self._open >= MAX_OPEN:
            return _TOO_MANY.format(why=f"{MAX_OPEN} questions wait")
        if calls[0].questions >= MAX_OF_CALL:
            return _TOO_MANY.format(why=f"{MAX_OF_CALL} times during one call")
        calls[0].questions += 1
        return ""

    async def _wait(
        self, calls: Sequence[RunningCall], ask: Callable[[], Awaitable[_Reply]]
    ) -> _Reply | None:
        """The reply; None: the call ended first, and the question was withdrawn."""
        reply: _Reply | None = None
        self._open += 1
        try:
            with ExitStack() as resting:
                for one in calls:
                    resting.enter_context(one.limit.resting())
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_cancel_after, calls[0], nursery.cancel_scope)
                    reply = await ask()
                    nursery.cancel_scope.cancel()
        finally:
            self._open -= 1
        return reply


async def _cancel_after(call: RunningCall, scope: trio.CancelScope) -> None:
    await call.ended.wait()
    scope.cancel()


def _as_result(reply: PersonReply, action: ElicitationAction) -> mcp_types.ElicitResult:
    if reply.answer != "accept" or action.url:
        return mcp_types.ElicitResult(action=reply.answer)
    content = cast("_Values", decode_json(reply.content))
    return mcp_types.ElicitResult(action="accept", content=content)
