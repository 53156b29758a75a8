"""request_permissions: request permissions once that many of the next commands need.

A grant never exceeds the request and holds for the turn, unless a person chose longer. Where the
limits switch such requests off, the tool returns at once what is already granted, if anything.
"""

import msgspec
from msgspec import Struct

from swarm.mailbox.protocol.approvals import ExtraPermissions, PermissionsAction
from swarm.mailbox.protocol.events import AnyCallDetail, OtherCall
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo

from ..policy.command_decision import ROLE_LOCKED, Ask, PolicyDecision, Refuse, Run
from ..policy.permission_sets import NO_PERMISSIONS, covers, intersection, is_empty
from .interface.function_tool import FunctionTool, decode_arguments
from .interface.permission_arguments import (
    PermissionsArgument,
    permissions_as_argument,
    resolve_permissions,
)
from .interface.tool_context import ToolContext
from .interface.tool_interface import (
    Invocation,
    OnOutput,
    Proposal,
    ToolFailed,
    ToolResult,
)

NOTHING_ASKED = (
    "permissions must name at least one right, as in "
    '{"permissions": {"network": {"enabled": true}}} or '
    '{"permissions": {"file_system": {"write": ["/a/path"]}}}'
)
_DETAIL_CHARS = 200


class RequestPermissionsArguments(Struct, frozen=True, kw_only=True):
    """Arguments as the model writes them."""

    permissions: PermissionsArgument
    reason: str | None = None


class RequestPermissionsTool(FunctionTool):
    """The request_permissions tool."""

    name = "request_permissions"
    arguments = RequestPermissionsArguments

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def is_offered(self, model: ModelInfo) -> bool:
        return self._context.can_use(self.name)

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, RequestPermissionsArguments)
        may_read = self._context.may_read
        wanted = resolve_permissions(arguments.permissions, self._context.cwd, may_read=may_read)
        if is_empty(wanted):
            raise ToolFailed(NOTHING_ASKED)
        if past := self._context.find_past_copy(wanted.write):
            raise ToolFailed(past)
        return _PermissionsInvocation(self._context, wanted, arguments.reason)


class _PermissionsInvocation:
    def __init__(self, context: ToolContext, wanted: ExtraPermissions, reason: str | None) -> None:
        self._context, self._wanted, self._reason = context, wanted, reason

    @property
    def detail(self) -> AnyCallDetail:
        text = msgspec.json.encode(permissions_as_argument(self._wanted)).decode()
        return OtherCall(argument=text[:_DETAIL_CHARS])

    def judge(self) -> PolicyDecision:
        limits = self._context.limits
        if self._context.is_locked:
            return Refuse(reason=ROLE_LOCKED)
        muted = limits.granular is not None and not limits.granular.request_permissions
        if limits.approval == "never" or muted or covers(self._context.granted.now, self._wanted):
            return Run()  # answered without an approval request
        return Ask(subject="more rights", cause="permissions", reason=self._reason)

    def propose(self, ask: Ask) -> Proposal:
        return Proposal(action=PermissionsAction(permissions=self._wanted))

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        answer = verdict.answer
        if answer is None:  # no approval: return only what is already granted
            return _permissions_result(
                intersection(self._wanted, self._context.granted.now), for_turn=True
            )
        granted = intersection(self._wanted, answer.permissions or NO_PERMISSIONS)
        for_turn = answer.scope == "once"
        self._context.granted.add(granted, for_turn=for_turn)
        return _permissions_result(granted, for_turn=for_turn)


def _permissions_result(granted: ExtraPermissions, *, for_turn: bool) -> ToolResult:
    body = {
        "permissions": permissions_as_argument(granted),
        "scope": "turn" if for_turn else "session",
    }
    return ToolResult(content=msgspec.json.encode(body).decode())
