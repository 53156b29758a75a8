"""wake_me: an agent asks to be woken, ends its turn, and has no process until then.

Offered to the root, and to a role whose `tools` name it. Small models and the workers of a table
do not get it.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from swarm.mailbox.parts.wakeups.wakeup_messages import (
    WAKE_ME,
    TakeBackWakeUp,
    WakeMe,
    WakeUpKept,
    WakeUpTakenBack,
)
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo

from ...tools.interface.function_tool import (
    NUMBER,
    decode_arguments,
    described,
    read_descriptions,
)
from ...tools.interface.team_client import TeamInvocation, TeamTool
from ...tools.interface.tool_interface import Invocation, ToolFailed, ToolResult

_WHOLE = msgspec.Meta(extra_json_schema=NUMBER)
_TEXTS = read_descriptions(Path(__file__).parent)


class WakeMeArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after_s: Annotated[int | None, _WHOLE] = None
    at: Annotated[str | None, described("ISO 8601.")] = None
    why: str | None = None
    cancel: Annotated[int | None, described("Its number.", NUMBER)] = None


class WakeMeTool(TeamTool):
    """Asks the supervisor for a wake-up by the clock, or takes one back."""

    name = WAKE_ME.name
    arguments = WakeMeArguments

    def is_offered(self, model: ModelInfo) -> bool:
        spec = self._team.spec
        is_named = self.name in (spec.role.tools.only or ())
        return (spec.depth == 0 or is_named) and not spec.job and not model.is_small

    def description(self) -> str:
        return _TEXTS[self.name]

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, WakeMeArguments)
        if given.cancel is not None:
            if given.after_s is not None or given.at:
                raise ToolFailed("give either `cancel` or a time, in calls of their own")
            take_back = TakeBackWakeUp(number=given.cancel)
            return TeamInvocation(f"cancel {given.cancel}", partial(self._take_back, take_back))
        request = WakeMe(after_s=given.after_s, at=given.at or "", why=given.why or "")
        when = request.at or f"in {request.after_s or 0:g} s"
        return TeamInvocation(f"{when}: {request.why}", partial(self._ask, request))

    async def _ask(self, request: WakeMe) -> ToolResult:
        kept = await self._team.request(request, WakeUpKept)
        text = (
            f"Wake-up {kept.number} fires at {kept.at}, {kept.in_s:.0f} s from now. End your turn "
            "now unless other work is left: you are woken also if your process is gone by then."
        )
        return ToolResult(content=text)

    async def _take_back(self, request: TakeBackWakeUp) -> ToolResult:
        taken = await self._team.request(request, WakeUpTakenBack)
        return ToolResult(content=f"Wake-up {taken.number} will not fire.")
