"""What all parts of a running supervisor share: one value, made in `run.py` and passed on."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from swarm.mailbox.base.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.base.errors import MessageTooLarge
from swarm.mailbox.base.ids import RunId
from swarm.mailbox.contents.credentials import make_proof
from swarm.mailbox.delivery.interfaces import MailboxServer
from swarm.mailbox.protocol.events import Hello
from swarm.mailbox.protocol.ops import Answer, AnyOp, encode_op
from swarm.mailbox.protocol.records import AnyRecordBody, Record
from swarm.mailbox.protocol.requests import RequestRefused
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION

from ..agents.agent_directory import AgentDirectory
from ..agents.agent_record import Agent
from ..approvals.approval_grants import ApprovalGrants
from ..base.run_pauses import RunPauses
from ..journal.journal import Journal
from ..journal.journal_files import RUN_FILE
from ..parts.copies.project_copies import ProjectCopies
from ..parts.hosts.placement.remote_hosts import RemoteHosts
from ..request.run_request import RunRequest
from ..runs.paths import RunPaths
from .current_skills import CurrentSkills
from .event_broadcast import EventBroadcast


class RunContext(NamedTuple):
    """The shared parts of one run. Every member lasts exactly as long as the run."""

    run_id: RunId
    run_key: bytes
    request: RunRequest
    paths: RunPaths
    mailbox: MailboxServer
    journal: Journal
    broadcast: EventBroadcast
    agents: AgentDirectory
    grants: ApprovalGrants  # approvals that a person gave for good
    skills: CurrentSkills
    pauses: RunPauses
    copies: ProjectCopies
    hosts: RemoteHosts
    protected: tuple[str, ...] = ()  # what no command may change, wherever it may write
    entropy: EntropySources = SYSTEM_ENTROPY
    began_s: float = 0.0  # Unix time

    @property
    def deadline_unix_s(self) -> float | None:
        """The run's deadline as Unix time; a resumed run counts again. None: it has none."""
        seconds = self.request.deadline_s
        return None if seconds is None else self.began_s + seconds

    def note(
        self,
        body: AnyRecordBody,
        *,
        agent: str = "",
        file: str = RUN_FILE,
        then: Callable[[Record], None] | None = None,
    ) -> Record:
        """Journal, then show, then call `then` with the written record; waits for nothing."""

        def written(record: Record) -> None:
            self.broadcast.publish_record(record)
            if then is not None:
                then(record)

        return self.journal.write(body, agent=agent, file=file, then=written)

    async def commit(self, body: AnyRecordBody, *, agent: str = "", file: str = RUN_FILE) -> Record:
        """Journal, show, then return: for facts on which nobody may act before they are written.

        Returns the record as it was written, that is redacted.
        """
        show = self.broadcast.publish_record
        return await self.journal.commit(body, agent=agent, file=file, then=show)

    async def send(self, agent: Agent, op: AnyOp) -> None:
        """Send an op to the agent's present process; a reply that is too large becomes a refusal.

        Raises PeerGone if that process has ended, and MessageTooLarge for an op that is no reply.
        """
        try:
            await self.mailbox.post(agent.identity, encode_op(op))
        except MessageTooLarge as error:
            if not isinstance(op, Answer):
                raise
            why = RequestRefused(message=f"the answer is too large to be sent: {error}")
            await self.mailbox.post(agent.identity, encode_op(replace(op, reply=why)))

    def send_nowait(self, agent: Agent, op: AnyOp) -> bool:
        """Like `send`, but only if it need not wait; False: nothing was posted."""
        return self.mailbox.post_nowait(agent.identity, encode_op(op)) != 0

    def supervisor_proof(self, identity: bytes) -> bytes:
        return make_proof(self.run_key, identity, purpose="supervisor")

    def is_proven(self, identity: bytes, hello: Hello) -> bool:
        """True if this supervisor started the process that sent `hello`, in the same version."""
        ours = hello.secret == self.supervisor_proof(identity)
        return ours and hello.protocol_version == PROTOCOL_VERSION

    def gateway_proof(self, identity: bytes) -> bytes:
        return make_proof(self.run_key, identity, purpose="gateway")
