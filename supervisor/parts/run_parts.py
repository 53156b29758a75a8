"""The parts of a run: what each keeps, and which of them takes which message.

The kernel asks this list, never a part. A new part adds itself to what it has of these; the type
checker names a message that nobody takes.
"""

from typing import assert_never

import trio

from swarm.mailbox.parts.findings.finding_messages import PublishFinding, RecallFindings
from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded, TakeLease
from swarm.mailbox.parts.memories.memory_messages import (
    MemoryAccess,
    RecallMemories,
    ReportStaleMemory,
)
from swarm.mailbox.parts.part_messages import (
    PartEvent,
    PartQuestion,
    PartReply,
    PartRequest,
    PartRules,
    PartText,
)

from ..agents.agent_phases import AgentEvent
from ..agents.agent_record import Agent, AgentPlan
from ..run_request import RunRequest
from ..runs.paths import RunPaths
from .findings.shared_findings import SharedFindings
from .leases.lease_ledger import LeaseLedger
from .leases.node_leases import NodeLeases
from .memories.memory_brief import brief_memories
from .memories.memory_readers import reads_memories
from .part_folds import PartFolds
from .part_host import PartHost


class RunParts:
    """What the parts of one run know before it begins. Made with the run."""

    def __init__(self, request: RunRequest, paths: RunPaths, folds: PartFolds) -> None:
        self._request, self._folds = request, folds
        self._leases = LeaseLedger(paths.folder.parent, request.parts.leases, cwd=request.cwd)

    def rules_for(self, plan: AgentPlan) -> PartRules:
        """What a new process of this agent is told."""
        if plan.slotless:
            return PartRules()
        is_reader, text = reads_memories(self._request, plan), self._request.parts.memories.text
        return PartRules(
            leases=self._leases.rules_for_agents(),
            memories=MemoryAccess(is_reader=is_reader),
            texts=(PartText(text=text, brief=brief_memories(text)),) if is_reader else (),
        )

    def start(self, host: PartHost, nursery: trio.Nursery) -> "PartServices":
        """The services, whose tasks run in this nursery."""
        return PartServices(
            host,
            leases=NodeLeases(host, self._leases, nursery),
            findings=SharedFindings(host, self._folds.findings, nursery),
        )


class PartServices:
    """The services of the parts while the run lives. Nothing but `answer` waits."""

    def __init__(self, host: PartHost, *, leases: NodeLeases, findings: SharedFindings) -> None:
        self._host = host
        self._leases = leases
        self._findings = findings

    def serve(self, agent: Agent, request_id: int, request: PartRequest) -> None:
        """Begin to serve a request of an agent; the part replies."""
        match request:
            case TakeLease():
                self._leases.serve(agent, request_id, request)
            case _:
                assert_never(request)

    def take(self, agent: Agent, event: PartEvent) -> None:
        """An event that is about to be journaled."""
        match event:
            case HeavyCommandEnded():
                self._leases.end(agent, event)
            case _:
                assert_never(event)

    async def answer(self, asker: Agent, question: PartQuestion) -> PartReply:
        """One answer to a question of an agent. Raises AgentRequestError."""
        match question:
            case PublishFinding() | RecallFindings():
                return await self._findings.serve(asker, question)
            case RecallMemories() | ReportStaleMemory():
                from .memories.memory_recall import MemoryRecall  # few runs have memories

                return await MemoryRecall(self._host).serve(asker, question)
            case _:
                assert_never(question)

    def on_agent_event(self, agent: Agent, event: AgentEvent) -> None:
        """What happens to agents, but reviewers; their phase has changed. Raises nothing."""
        match event:
            case AgentEvent.PROCESS_STARTED:
                self._findings.send_new(agent)
            case AgentEvent.PROCESS_ENDED:
                self._findings.forget_process(agent)
            case _:
                pass
