"""Findings: how agents publish, search and are sent them."""

from ...base.named_tool import NamedTool
from ...protocol.values.base import Tagged
from ...protocol.values.findings import Finding

PUBLISH_FINDING = NamedTool(name="publish_finding")
RECALL_FINDINGS = NamedTool(name="recall_findings", reads=True)
FINDING_TOOLS = (PUBLISH_FINDING, RECALL_FINDINGS)


class ShareFindings(Tagged):
    """Findings of other agents, for a digest before the next request. They start no turn."""

    findings: tuple[Finding, ...]  # in order; a number that is known already is ignored


class PublishFinding(Tagged):
    """Publish one fact for all agents of the run; the reply is `FindingAccepted`."""

    fact: str
    file: str = ""  # absolute, or relative to the agent's folder
    lines: str = ""  # "12" or "12-40"


class RecallFindings(Tagged):
    """Search the run's findings; an empty query finds the newest. The reply is `FindingsFound`."""

    query: str = ""


class FindingAccepted(Tagged):
    """The finding's number; one that says the same was there before if `known`."""

    number: int
    author: str
    known: bool = False


class FindingsFound(Tagged):
    """The best matches, best first."""

    findings: tuple[Finding, ...] = ()
    more: int = 0  # matches that are not listed
