"""One call from its first request to its result, with what its server must know in between.

A server of the revision 2026-07-28 answers with what it needs, and is asked again with that; an
older one may refuse a call until a person has opened a web page. The call itself is made once.
"""

from collections.abc import Mapping
from typing import Protocol

import mcp_types
import trio
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError

from swarm.mailbox.base.errors import SwarmError

from .call_questions import CallQuestions
from .running_call import RunningCall

_AGREED = (
    "the server wants a person to do something on a web page first. The person was shown the page "
    "and agreed to open it; call the tool again when it is done"
)
MAX_ROUNDS = 10  # as other clients have it
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.25
_Said = mcp_types.CallToolResult | mcp_types.InputRequiredResult
_NOBODY = "the server wants a person to open a web page first, and nobody agreed to"


class PageRequired(SwarmError):
    """The call was not made, because of a page that must be opened; the text is for the model."""


class TooManyRounds(SwarmError):
    """The server goes on asking; the text is for the model."""


class SendCall(Protocol):
    """Sends the call, again with what the server asked for."""

    async def __call__(
        self,
        *,
        input_responses: mcp_types.InputResponses | None = None,
        request_state: str | None = None,
    ) -> _Said: ...


class CallRounds:
    """The calls of one connection."""

    def __init__(self, session: ClientSession, questions: CallQuestions) -> None:
        self._session, self._questions = session, questions

    async def complete(self, call: RunningCall, send: SendCall) -> mcp_types.CallToolResult:
        """The result. Raises PageRequired, TooManyRounds, and what `send` raises."""
        with self._questions.during(call):
            try:
                first = await send()
            except MCPError as error:
                if error.code != mcp_types.URL_ELICITATION_REQUIRED:
                    raise
                raise PageRequired(await self._visit(error, call)) from error
            return await self._answer_until_done(call, first, send)

    async def _answer_until_done(
        self, call: RunningCall, said: _Said, send: SendCall
    ) -> mcp_types.CallToolResult:
        """Ask again with what the server wants to know (SEP-2322), at most `MAX_ROUNDS` times.

        Raises TooManyRounds; MCPError: one of its questions cannot be answered.
        """
        pause_s = _FIRST_PAUSE_S
        for _ in range(MAX_ROUNDS):
            if isinstance(said, mcp_types.CallToolResult):
                return said
            responses = None
            if said.input_requests:
                pause_s = _FIRST_PAUSE_S
                responses = await self._answer_all(call, said.input_requests)
            else:  # it wants nothing but to be asked once more
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            said = await send(input_responses=responses, request_state=said.request_state)
        if isinstance(said, mcp_types.CallToolResult):
            return said
        raise TooManyRounds(f"the server asked {MAX_ROUNDS} times for more and gave no result")

    async def _answer_all(
        self, call: RunningCall, requests: Mapping[str, mcp_types.InputRequest]
    ) -> mcp_types.InputResponses:
        """All at once; the first that is refused withdraws the others. Raises MCPError."""
        responses: mcp_types.InputResponses = {}
        refused: list[mcp_types.ErrorData] = []
        async with trio.open_nursery() as nursery:

            async def answer(key: str, request: mcp_types.InputRequest) -> None:
                found = await self._answer(call, key, request)
                if isinstance(found, mcp_types.ErrorData):
                    refused.append(found)
                    nursery.cancel_scope.cancel()
                else:
                    responses[key] = found

            for key, request in requests.items():
                nursery.start_soon(answer, key, request)
        if refused:
            raise MCPError.from_error_data(refused[0])
        return responses

    async def _answer(
        self, call: RunningCall, key: str, request: mcp_types.InputRequest
    ) -> mcp_types.InputResponse | mcp_types.ErrorData:
        match request:
            case mcp_types.ElicitRequest(params=params):
                return await self._questions.elicit(params, call)
            case mcp_types.CreateMessageRequest(params=params):
                return await self._questions.sample(params, call)
            case _:
                context = ClientRequestContext(session=self._session, request_id=key)
                return await self._session.dispatch_input_request(context, request)

    async def _visit(self, error: MCPError, call: RunningCall) -> str:
        """Ask a person to open the pages that the call requires."""
        pages = UrlElicitationRequiredError.from_error(error.error).elicitations
        return _AGREED if await self._questions.visit(pages, call) else _NOBODY
