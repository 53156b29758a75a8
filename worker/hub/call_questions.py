"""What one server asks a person during the calls of its connection: bounded, each for a call.

A server may ask only while a call runs. Older revisions of the protocol do not say for which one:
then the question belongs to the oldest call of the connection, and names them all.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Protocol, cast

import mcp_types
import msgspec
import trio

from swarm.mailbox.protocol.elicitation import ElicitationAction, ElicitationAnswer
from swarm.mailbox.protocol.mcp import McpServer

from .elicitation_form import ElicitationRefused, read_elicitation
from .running_call import RunningCall

MAX_OPEN = 4  # questions of one connection at once
MAX_OF_CALL = 12  # questions during one call
MAX_TOGETHER = 5  # pages that a call may require before it can be made
_OUTSIDE = "a person can be asked only while a tool's call runs"
_TOO_MANY = "this server has asked too often ({why}); nobody is asked"
_Values = dict[str, list[str] | str | int | float | bool | None]


class PersonReply(NamedTuple):
    answer: ElicitationAnswer
    content: bytes = b"{}"  # a JSON object


class AsksPerson(Protocol):
    """The way to a person."""

    async def ask(self, requests: tuple[int, ...], action: ElicitationAction) -> PersonReply:
        """Ask for the first of these calls. Raises nothing but Cancelled, which withdraws it."""
        ...


class CallQuestions:
    """The questions of one connection."""

    def __init__(self, server: McpServer, person: AsksPerson) -> None:
        self._server, self._person = server, person
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
        if not calls:
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=_OUTSIDE)
        if why := self._excess(calls[0]):
            text = _TOO_MANY.format(why=why)
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=text)
        try:
            action = read_elicitation(params, server=self._server.name, tool=calls[0].tool)
        except ElicitationRefused as refused:
            return mcp_types.ErrorData(code=mcp_types.INVALID_PARAMS, message=str(refused))
        return _as_result(await self._ask(calls, action), action)

    async def visit(
        self, pages: Sequence[mcp_types.ElicitRequestURLParams], call: RunningCall
    ) -> bool:
        """Ask for the pages that a call requires first; True if a person will open them all."""
        for page in pages[:MAX_TOGETHER]:
            result = await self.elicit(page, call)
            if isinstance(result, mcp_types.ErrorData) or result.action != "accept":
                return False
        return 0 < len(pages) <= MAX_TOGETHER

    def _excess(self, call: RunningCall) -> str:
        """Why this question is one too many; "" if it is not. It counts from now on."""
        if self._open >= MAX_OPEN:
            return f"{MAX_OPEN} questions wait"
        if call.questions >= MAX_OF_CALL:
            return f"{MAX_OF_CALL} times during one call"
        call.questions += 1
        return ""

    async def _ask(self, calls: list[RunningCall], action: ElicitationAction) -> PersonReply:
        """The reply; a question whose call ends first is withdrawn."""
        reply = PersonReply("cancel")
        self._open += 1
        try:
            with ExitStack() as resting:
                for one in calls:
                    resting.enter_context(one.limit.resting())
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_cancel_after, calls[0], nursery.cancel_scope)
                    reply = await self._person.ask(tuple(one.request for one in calls), action)
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
    content = cast("_Values", msgspec.json.decode(reply.content))
    return mcp_types.ElicitResult(action="accept", content=content)
