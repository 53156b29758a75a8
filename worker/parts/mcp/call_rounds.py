"""One call from its first request to its result, with what its server must know in between.

A server of the revision 2026-07-28 answers with what it needs, and is asked again with that; an
older one may refuse a call until a person has opened a web page. The call itself is made once.
"""

from functools import partial
from typing import Protocol

import mcp_types
from mcp.client._input_required import run_input_required_driver
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError

from swarm.mailbox.base.errors import SwarmError

from .call_questions import CallQuestions
from .running_call import RunningCall

_AGREED = (
    "the server wants a person to do something on a web page first. The person was shown the page "
    "and agreed to open it; call the tool again when it is done"
)
_NOBODY = "the server wants a person to open a web page first, and nobody agreed to"


class PageRequired(SwarmError):
    """The call was not made, because of a page that must be opened; the text is for the model."""


class SendCall(Protocol):
    """Sends the call, again with what the server asked for."""

    async def __call__(
        self,
        *,
        input_responses: mcp_types.InputResponses | None = None,
        request_state: str | None = None,
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult: ...


class CallRounds:
    """The calls of one connection."""

    def __init__(self, session: ClientSession, questions: CallQuestions) -> None:
        self._session, self._questions = session, questions

    async def complete(self, call: RunningCall, send: SendCall) -> mcp_types.CallToolResult:
        """The result. Raises PageRequired, and what `send` raises."""
        with self._questions.during(call):
            try:
                first = await send()
            except MCPError as error:
                if error.code != mcp_types.URL_ELICITATION_REQUIRED:
                    raise
                raise PageRequired(await self._visit(error, call)) from error
            if isinstance(first, mcp_types.CallToolResult):
                return first

            async def retry(
                responses: mcp_types.InputResponses | None, state: str | None
            ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
                return await send(input_responses=responses, request_state=state)

            dispatch = partial(self._answer, call)
            return await run_input_required_driver(first, dispatch=dispatch, retry=retry)

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
