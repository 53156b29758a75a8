"""The client of one tool call: its progress notifications, and whether and how it can be asked."""

import time
from collections.abc import Callable
from typing import Protocol

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.control import ResolveApproval

from ..client import Event
from .approval_forms import ApprovalForm, approval_form, form_answer

CallContext = ServerRequestContext[object, object]
_QUIET_S = 15.0  # a client may give up on a call of which it hears nothing


class CallObserver(Protocol):
    """What a waiting call tells its client, and asks it."""

    can_ask: bool

    async def show(self, tree: str) -> None: ...

    async def follow(self, event: Event) -> None: ...

    async def ask(self, pending: PendingApproval) -> ResolveApproval: ...


class CallingClient:
    """The client of a call, for the tools of swarm."""

    def __init__(self, ctx: CallContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._ctx, self._clock = ctx, clock
        self._shown, self._shown_at, self._count = "", 0.0, 0
        declared = ctx.session.client_capabilities
        has_forms = declared is not None and declared.elicitation is not None
        self.is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.can_be_asked_by_result = self.is_modern and has_forms
        self.can_ask = has_forms and not self.is_modern and ctx.session.can_send_request

    async def show(self, tree: str) -> None:
        """Send the tree if it changed, or if the client heard nothing for a while."""
        now = self._clock()
        if tree == self._shown and now - self._shown_at < _QUIET_S:
            return
        self._shown, self._shown_at = tree, now
        self._count += 1
        await self._ctx.session.report_progress(self._count, message=tree)

    async def follow(self, event: Event) -> None:
        """Single events are not sent."""

    async def ask(self, pending: PendingApproval) -> ResolveApproval:
        """Ask by an elicitation. No answer that can be read is a no."""
        form = approval_form(pending)
        try:
            answer = await self._ctx.session.elicit_form(
                form.message, form.schema, self._ctx.request_id
            )
        except (MCPError, ValidationError) as error:
            raise SwarmError(f"the client did not answer: {error}") from error
        return answered(pending, answer)


def answered(pending: PendingApproval, answer: types.ElicitResult) -> ResolveApproval:
    """What an answered elicitation means."""
    content: dict[str, object] = dict(answer.content or {})
    return form_answer(pending, accepted=answer.action == "accept", content=content)


def elicit_request(form: ApprovalForm) -> types.ElicitRequest:
    """The form as an input request in a result."""
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=form.message, requested_schema=form.schema)
    )
