"""What all parts of a running supervisor share. One value, made in supervisor.py, passed on."""

from typing import NamedTuple

import trio
from msgspec.structs import replace

from swarm.mailbox.chances import REAL, Chances
from swarm.mailbox.errors import MessageTooLarge
from swarm.mailbox.ids import RunId
from swarm.mailbox.post import PostOffice
from swarm.mailbox.proof import make_proof
from swarm.mailbox.protocol.base import PROTOCOL_VERSION
from swarm.mailbox.protocol.events import Hello
from swarm.mailbox.protocol.limits import WorkspaceWrite
from swarm.mailbox.protocol.ops import Answer, AnyOp, encode_op
from swarm.mailbox.protocol.records import AnyRecordBody, Record
from swarm.mailbox.protocol.requests import RequestRefused

from .agents import AgentPlan, LiveAgent
from .approvals.grants import Grants
from .journal.rollout import RUN_FILE, Journal
from .places import RunPlaces
from .private_tmp import drop_private_tmp
from .registry import AgentRegistry
from .request import RunRequest
from .showing import Showing
from .spawner.base import Home
from .waiting import WaitingRoom


class Running(NamedTuple):
    """The insides of one run. Every member lives exactly as long as the run."""

    run_id: RunId
    run_key: bytes
    request: RunRequest
    places: RunPlaces
    office: PostOffice
    journal: Journal
    showing: Showing
    household: Home
    registry: AgentRegistry
    room: WaitingRoom  # the line for the registry's slots
    grants: Grants  # a person's lasting yeses
    chances: Chances = REAL
    began_s: float = 0.0  # Unix time

    def note(self, body: AnyRecordBody, *, agent: str = "", file: str = RUN_FILE) -> Record:
        """Journal, then show; without waiting for it."""
        return self.journal.write(body, agent=agent, file=file, then=self.showing.record)

    async def commit(self, body: AnyRecordBody, *, agent: str = "", file: str = RUN_FILE) -> Record:
        """Journal, then show, then return: for what others must not act upon before.

        Returns the record as it was written: without any secret.
        """
        done = trio.Event()
        written: list[Record] = []

        def show(record: Record) -> None:
            self.showing.record(record)  # here, not after the wait: records are shown in order
            written.append(record)
            done.set()

        self.journal.write(body, agent=agent, file=file, then=show)
        await done.wait()
        return written[0]

    async def send(self, agent: LiveAgent, op: AnyOp) -> None:
        """Post an op to the agent's present life; an answer too large for it becomes a refusal.

        Raises PeerGone if that ended, and MessageTooLarge.
        """
        try:
            await self.office.post(agent.identity, encode_op(op))
        except MessageTooLarge as error:
            if not isinstance(op, Answer):
                raise
            why = RequestRefused(message=f"the answer is too large to be sent: {error}")
            await self.office.post(agent.identity, encode_op(replace(op, reply=why)))

    def send_nowait(self, agent: LiveAgent, op: AnyOp) -> bool:
        """As `send`, if nothing has to be waited for; False: it was not posted."""
        return self.office.post_nowait(agent.identity, encode_op(op)) != 0

    def supervisor_proof(self, identity: bytes) -> bytes:
        return make_proof(self.run_key, identity, purpose="supervisor")

    def is_proven(self, identity: bytes, hello: Hello) -> bool:
        """True if this life was started by us, in our version."""
        ours = hello.secret == self.supervisor_proof(identity)
        return ours and hello.protocol_version == PROTOCOL_VERSION

    def gateway_proof(self, identity: bytes) -> bytes:
        return make_proof(self.run_key, identity, purpose="gateway")

    def drop_tmp(self, plan: AgentPlan) -> None:
        """Its process is gone: so is its private folder, unless something lies in it.

        A further life makes it anew; thousands of empty ones would be 4 KiB each.
        """
        policy = plan.limits.sandbox
        roots = policy.writable_roots if isinstance(policy, WorkspaceWrite) else ()
        drop_private_tmp(self.places.tmp / plan.agent_id, (plan.cwd, *plan.add_dirs, *roots))
