"""What the kernel gives to the service of a part. `RunContext` is one; a part never sees more."""

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, Protocol

from swarm.mailbox.base.entropy import EntropySources
from swarm.mailbox.base.ids import RunId
from swarm.mailbox.protocol.ops import AnyOp
from swarm.mailbox.protocol.records import AnyRecordBody, Record

from ..agents.agent_directory import AgentDirectory
from ..agents.agent_record import Agent
from ..agents.life.agent_manager import AgentManager
from ..agents.life.lifecycle import AgentLifecycle
from ..agents.life.mail_delivery import MailDelivery
from ..agents.life.spawning import AgentSpawner
from ..approvals.approval_grants import ApprovalGrants
from ..base.run_pauses import RunPauses
from ..context.event_broadcast import EventBroadcast
from ..journal.journal import Journal
from ..journal.journal_files import RUN_FILE
from ..parts.hosts.placement.remote_hosts import RemoteHosts
from ..request.run_request import RunRequest
from ..runs.paths import RunPaths

Fate = Literal["cancelled", "later", "now"]
"""What follows when a part's work for an agent is cut off: nothing, a resume continues it, or it
continues at once. It is set before the work is cut off.
"""


class PartTeam(NamedTuple):
    """For a part that starts agents, or posts letters to them."""

    manager: AgentManager
    spawner: AgentSpawner
    mail: MailDelivery
    lifecycle: AgentLifecycle
    try_now: Callable[[], Awaitable[None]]  # the gateway forgets the limits that it knows of


class PartHost(Protocol):
    """Lasts as long as the run."""

    @property
    def run_id(self) -> RunId: ...
    @property
    def request(self) -> RunRequest: ...
    @property
    def paths(self) -> RunPaths: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def agents(self) -> AgentDirectory: ...
    @property
    def grants(self) -> ApprovalGrants: ...
    @property
    def broadcast(self) -> EventBroadcast: ...
    @property
    def entropy(self) -> EntropySources: ...
    @property
    def pauses(self) -> RunPauses: ...
    @property
    def hosts(self) -> RemoteHosts: ...
    @property
    def protected(self) -> tuple[str, ...]: ...

    def note(
        self,
        body: AnyRecordBody,
        *,
        agent: str = "",
        file: str = RUN_FILE,
        then: Callable[[Record], None] | None = None,
    ) -> Record:
        """Journal, then show, then call `then` with the written record; waits for nothing."""
        ...

    async def commit(self, body: AnyRecordBody, *, agent: str = "", file: str = RUN_FILE) -> Record:
        """Journal, show, then return."""
        ...

    async def send(self, agent: Agent, op: AnyOp) -> None:
        """Send an op to the agent's present process. Raises PeerGone, MessageTooLarge."""
        ...

    def send_nowait(self, agent: Agent, op: AnyOp) -> bool:
        """Like `send`, but only if it need not wait; False: nothing was posted."""
        ...
