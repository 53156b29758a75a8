"""Shared findings: journaled, then sent to all other agents of the run.

An agent puts what it was sent into its history as one digest before its next request. A new
process is sent all that is there, and leaves out what its history holds. The journal restores the
findings of a resumed run.
"""

from collections.abc import Iterable

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.parts.findings.finding_messages import (
    FindingAccepted,
    FindingsFound,
    PublishFinding,
    RecallFindings,
    ShareFindings,
)
from swarm.mailbox.protocol.records import Record
from swarm.mailbox.protocol.values.findings import Finding, FindingPublished

from ....agents.agent_record import Agent
from ....part_access.part_host import PartHost
from ..findings_index import FindingsIndex

MAX_SENT = 64  # the newest, in one message
_SEND_LIMIT_S = 5.0  # an agent that reads nothing for so long finds them by recall_findings


class SharedFindings:
    """Serves the requests about findings of one run, and sends new ones to its agents."""

    def __init__(self, host: PartHost, before: Iterable[Finding], nursery: trio.Nursery) -> None:
        """`before`: what was published before a resume."""
        self._host = host
        self._nursery = nursery
        self._index = FindingsIndex(host.request.cwd)
        self._index.restore(before)
        self._sent: dict[str, tuple[int, int]] = {}  # agent → epoch, how many its process was sent

    async def serve(
        self, asker: Agent, request: PublishFinding | RecallFindings
    ) -> FindingAccepted | FindingsFound:
        """Serve one request; a published finding is written when this returns.

        Raises AgentRequestError.
        """
        if isinstance(request, RecallFindings):
            return self._index.search(request)
        known = self._index.find_known(request, asker.plan.cwd)
        if known is not None:
            return FindingAccepted(number=known.number, author=known.author, known=True)
        finding = self._index.accept(asker.path, asker.plan.cwd, request)
        written = trio.Event()

        def share(record: Record) -> None:  # in the order of the numbers, redacted
            if isinstance(record.body, FindingPublished):
                self._index.add_written(record.body.finding)
            self._send_to_all()
            written.set()

        self._host.note(FindingPublished(finding=finding), agent=asker.path, then=share)
        await written.wait()
        return FindingAccepted(number=finding.number, author=finding.author)

    def forget_process(self, agent: Agent) -> None:
        """It has ended: the next one is sent all."""
        self._sent.pop(agent.path, None)

    def send_new(self, agent: Agent) -> None:
        """Send this process what it was not sent yet, without its own. Never waits."""
        written, (epoch, sent) = self._index.written, self._sent.get(agent.path, (0, 0))
        unsent = written[sent if epoch == agent.epoch else 0 :]
        fresh = [one for one in unsent if one.author != agent.path]
        self._sent[agent.path] = agent.epoch, len(written)
        if not fresh:
            return
        op = ShareFindings(findings=tuple(fresh[-MAX_SENT:]))
        try:
            is_sent = self._host.send_nowait(agent, op)
        except PeerGone:
            return  # its next process is sent all of them
        if not is_sent:
            self._nursery.start_soon(self._send, agent, op)

    def _send_to_all(self) -> None:
        for agent in tuple(self._host.agents.live.values()):
            is_ready = agent.is_live and agent.process.hello.is_set()
            if is_ready and not agent.plan.slotless and not agent.process.suspending:
                self.send_new(agent)

    async def _send(self, agent: Agent, op: ShareFindings) -> None:
        with trio.move_on_after(_SEND_LIMIT_S):
            try:
                await self._host.send(agent, op)
            except PeerGone:
                return
