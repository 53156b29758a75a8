"""publish_finding and recall_findings: facts that the agents of a run share.

Offered to agents that have a parent, and so perhaps siblings: the first request of a run holds
neither. Small models and the workers of a table do not get them.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from swarm.mailbox.parts.findings.finding_messages import (
    PUBLISH_FINDING,
    RECALL_FINDINGS,
    FindingAccepted,
    FindingsFound,
    PublishFinding,
    RecallFindings,
)
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.findings import Finding

from ...tools.interface.function_tool import decode_arguments, described, read_descriptions
from ...tools.interface.team_client import TeamInvocation, TeamTool, list_found
from ...tools.interface.tool_interface import Invocation, ToolResult

_TEXTS = read_descriptions(Path(__file__).parent)
_WHOSE = "words of other agents: check them before you rely on them"


class PublishFindingArguments(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    fact: Annotated[str, described("One sentence or two.")]
    file: str | None = None
    lines: Annotated[str | int | None, described("As `12-40`.")] = None


class RecallFindingsArguments(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    query: Annotated[str | None, described("Words or a file; default: the newest.")] = None


class FindingsTool(TeamTool):
    """A tool for agents that have others beside or above them."""

    def is_offered(self, model: ModelInfo) -> bool:
        spec = self._team.spec
        has_others = spec.depth > 0 and spec.team.can_spawn
        return has_others and not spec.job and not model.is_small

    def description(self) -> str:
        return _TEXTS[self.name]


class PublishFindingTool(FindingsTool):
    """Publishes a fact for all agents of the run."""

    name = PUBLISH_FINDING.name
    arguments = PublishFindingArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, PublishFindingArguments)
        lines = "" if given.lines is None else str(given.lines)
        request = PublishFinding(fact=given.fact, file=given.file or "", lines=lines)
        place = f" [{request.file}:{lines}]" if request.file else ""
        return TeamInvocation(f"{request.fact}{place}", partial(self._publish, request))

    async def _publish(self, request: PublishFinding) -> ToolResult:
        accepted = await self._team.request(request, FindingAccepted)
        if accepted.known:
            text = f"known already: #{accepted.number} of {accepted.author}"
        else:
            text = f"published as #{accepted.number}"
        return ToolResult(content=text)


class RecallFindingsTool(FindingsTool):
    """Searches the findings of the run."""

    name = RECALL_FINDINGS.name
    arguments = RecallFindingsArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        query = decode_arguments(call, RecallFindingsArguments).query or ""
        return TeamInvocation(query or "the newest", partial(self._recall, query))

    async def _recall(self, query: str) -> ToolResult:
        found = await self._team.request(RecallFindings(query=query), FindingsFound)
        rows = [_as_table(one) for one in found.findings]
        return list_found("findings", rows, note=_WHOSE, more=found.more)


def _as_table(finding: Finding) -> dict[str, object]:
    place = {"place": finding.place} if finding.place else {}
    return {"number": finding.number, "by": finding.author, **place, "fact": finding.fact}
