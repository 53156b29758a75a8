"""What the kernel gives to the service of a part. `RunContext` is one; a part never sees more."""

from typing import Protocol

from swarm.mailbox.ids import RunId
from swarm.mailbox.protocol.ops import AnyOp
from swarm.mailbox.protocol.records import AnyRecordBody, Record

from ..agents.agent_record import Agent
from ..journal.journal import Journal
from ..journal.journal_files import RUN_FILE
from ..processes.machine_turns import OtherMachines
from ..run_pauses import RunPauses
from ..run_request import RunRequest
from ..runs.paths import RunPaths


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
    def pauses(self) -> RunPauses: ...
    @property
    def hosts(self) -> OtherMachines: ...

    def note(self, body: AnyRecordBody, *, agent: str = "", file: str = RUN_FILE) -> Record:
        """Journal, then show; does not wait for either."""
        ...

    async def commit(self, body: AnyRecordBody, *, agent: str = "", file: str = RUN_FILE) -> Record:
        """Journal, show, then return."""
        ...

    async def send(self, agent: Agent, op: AnyOp) -> None:
        """Send an op to the agent's present process. Raises PeerGone, MessageTooLarge."""
        ...
