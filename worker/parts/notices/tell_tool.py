"""tell_person, for the root of a run whose person said where to be told."""

from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from swarm.mailbox.parts.notices.notice_messages import (
    TELL_PERSON,
    PersonTold,
    TellPerson,
    Urgency,
)
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo

from ...tools.interface.function_tool import decode_arguments, described, read_descriptions
from ...tools.interface.team_client import TeamInvocation, TeamTool
from ...tools.interface.tool_interface import Invocation, ToolFailed, ToolResult

_TEXTS = read_descriptions(Path(__file__).parent)


class TellPersonArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Annotated[str, described("At most 200 characters; no secrets.")]
    urgency: Urgency = "normal"


class TellPersonTool(TeamTool):
    """Sends a notice."""

    name = TELL_PERSON.name
    arguments = TellPersonArguments

    def is_offered(self, model: ModelInfo) -> bool:
        return self._team.spec.parts.notices.can_tell

    def description(self) -> str:
        return _TEXTS[self.name]

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, TellPersonArguments)
        request = TellPerson(text=given.text, urgency=given.urgency)
        return TeamInvocation(request.text, partial(self._tell, request))

    async def _tell(self, request: TellPerson) -> ToolResult:
        told = await self._team.request(request, PersonTold)
        if told.refusal:
            raise ToolFailed(told.refusal)
        return ToolResult(content="sent; nobody answers it")
