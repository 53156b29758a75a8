"""request_permissions: ask once for rights that many of the next commands need.

Rule guarded: what is granted is never more than what was asked for, and is held for the turn unless
a person said longer. Where nobody would be asked, the answer is at once: nothing.
"""

import msgspec

from swarm.mailbox.protocol.approvals import ExtraPermissions, PermissionsAction
from swarm.mailbox.protocol.events import AnyCallDetail, OtherCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..policy.asking import may_request_permissions
from ..policy.decide import LOCKED, Ask, Refuse, Run, Verdict
from ..policy.permissions import NOTHING, common, covers, is_empty
from .errors import ToolFailed
from .permissions import PERMISSIONS_SCHEMA, PermissionsWish, as_wish, read_wish
from .router import decode_arguments
from .site import Site
from .spec import ABORTED_CALL, Listen, Outcome, Prepared, Proposal, Schema, function_spec
from .texts import description_of

NOTHING_ASKED = "request_permissions requires at least one permission"
_DETAIL_CHARS = 200
_PROPERTIES: dict[str, Schema] = {
    "permissions": PERMISSIONS_SCHEMA,
    "reason": {"type": "string", "description": "What for, in one sentence."},
}


class RequestPermissionsArguments(msgspec.Struct, frozen=True, kw_only=True):
    """As the model writes them."""

    permissions: PermissionsWish
    reason: str | None = None


class RequestPermissions:
    """The tool."""

    name = "request_permissions"
    parallel = False
    aborted_text = ABORTED_CALL

    def __init__(self, site: Site) -> None:
        self._site = site

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        if not may_request_permissions(self._site.limits, is_locked=self._site.is_locked):
            return None
        description = description_of(self.name)
        return function_spec(self.name, description, _PROPERTIES, required=("permissions",))

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> Prepared:
        arguments = decode_arguments(call, RequestPermissionsArguments)
        may_read = self._site.may_read
        wanted = read_wish(arguments.permissions, self._site.cwd, may_read=may_read)
        if is_empty(wanted):
            raise ToolFailed(NOTHING_ASKED)
        return _PermissionsDeed(self._site, wanted, arguments.reason)


class _PermissionsDeed:
    def __init__(self, site: Site, wanted: ExtraPermissions, reason: str | None) -> None:
        self._site, self._wanted, self._reason = site, wanted, reason

    @property
    def detail(self) -> AnyCallDetail:
        words = msgspec.json.encode(as_wish(self._wanted)).decode()
        return OtherCall(argument=words[:_DETAIL_CHARS])

    def judge(self) -> Verdict:
        limits = self._site.limits
        if self._site.is_locked:
            return Refuse(reason=LOCKED)
        muted = limits.granular is not None and not limits.granular.request_permissions
        if limits.approval == "never" or muted or covers(self._site.held.now, self._wanted):
            return Run()  # answered without a question
        return Ask(subject="more rights", cause="permissions", reason=self._reason)

    def propose(self, ask: Ask) -> Proposal:
        return Proposal(action=PermissionsAction(permissions=self._wanted))

    async def run(self, verdict: Run, listen: Listen) -> Outcome:
        answer = verdict.answer
        if answer is None:  # nothing is new: what is held already, or nothing
            return _told(common(self._wanted, self._site.held.now), for_turn=True)
        granted = common(self._wanted, answer.permissions or NOTHING)
        for_turn = answer.scope == "once"
        self._site.held.add(granted, for_turn=for_turn)
        return _told(granted, for_turn=for_turn)


def _told(granted: ExtraPermissions, *, for_turn: bool) -> Outcome:
    body = {"permissions": as_wish(granted), "scope": "turn" if for_turn else "session"}
    return Outcome(content=msgspec.json.encode(body).decode())
