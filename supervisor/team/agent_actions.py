"""Requests that act on other agents: send mail, give a task, list, interrupt, close.

An agent interrupts and closes only its descendants. Every end is bounded: ask, TERM, KILL.
"""

from collections.abc import Callable, Sequence
from functools import partial

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.base.ids import ROOT_PATH, AgentPath, is_within, resolve_path
from swarm.mailbox.protocol.ops import Interrupt
from swarm.mailbox.protocol.records import AgentEnded
from swarm.mailbox.protocol.requests import (
    AnyReply,
    CloseAgent,
    FollowUp,
    HaltAgent,
    ListAgents,
    PreviousStatus,
    RequestRefused,
    SendMail,
    Sent,
    TeamMember,
)
from swarm.mailbox.protocol.requests import Team as TeamReply

from ..agents.agent_phases import AgentEvent, Effect
from ..agents.agent_record import Agent
from ..agents.child_plan import AgentRequestError, check_message
from ..agents.life.agent_manager import AgentManager
from ..agents.life.mail_delivery import MAX_UNREAD, MailDelivery
from ..context.run_context import RunContext
from .wait_calls import find_member

CLOSE_GRACE_S = 5.0
_HALT_LIMIT_S = 5.0
NOT_FOUND = "not_found"
ROOT_TASK = "Main thread"


class AgentActions:
    """Serves the requests that act on members."""

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        mail: MailDelivery,
    ) -> None:
        self._run, self._agents, self._team = running, agents, running.agents
        self._mail = mail

    # --- mail ----------------------------------------------------------------------------------

    async def send(self, asker: Agent, request: SendMail) -> AnyReply:
        """Send mail that starts no turn."""
        reader = self._recipient(asker, request.target, request.message)
        mail = self._mail.make_mail(asker.path, reader.path, request.message)
        await self._mail.send_and_wait_written(reader, mail)
        return _sent(reader)

    async def follow_up(self, asker: Agent, request: FollowUp) -> AnyReply:
        """Give a task to an existing agent, working or finished."""
        reader = self._recipient(asker, request.target, request.message)
        if reader.path == ROOT_PATH:
            raise AgentRequestError("Follow-up tasks can't target the root agent")
        if request.interrupt and not reader.closed:
            await self._interrupt(reader, f"{asker.path} has another task for it")
        mail = self._mail.make_mail(
            asker.path, reader.path, request.message, kind="followup", wakes=True
        )
        await self._mail.send_and_wait_written(reader, mail)
        return _sent(reader)

    def _recipient(self, asker: Agent, target: str, message: str) -> Agent:
        check_message(message)
        reader = find_member(self._team, asker, target)
        if reader is asker:
            raise AgentRequestError("that is you: a message to yourself goes nowhere")
        if len(reader.unread_mail) >= MAX_UNREAD:
            raise AgentRequestError(
                f"{reader.path} has {MAX_UNREAD} unread messages; it gets no more until it reads"
            )
        return reader

    # --- listing -------------------------------------------------------------------------------

    def list_team(self, asker: Agent, request: ListAgents) -> AnyReply:
        """The root first, then by path; closed agents are left out."""
        prefix = ROOT_PATH
        if request.path_prefix:
            try:
                prefix = resolve_path(request.path_prefix, base=AgentPath(asker.path))
            except ValueError as error:
                raise AgentRequestError(str(error)) from error
        found = [
            self._list_entry(one)
            for one in sorted(self._team.subtree(prefix), key=lambda one: one.path)
            if not one.closed
        ]
        return TeamReply(members=tuple(found))

    def _list_entry(self, member: Agent) -> TeamMember:
        entry = member.as_reply()
        if member.path != ROOT_PATH:
            return entry
        return TeamMember(
            path=entry.path, status=entry.status, last_task=ROOT_TASK, role=entry.role
        )

    # --- ending --------------------------------------------------------------------------------

    async def halt(
        self, asker: Agent, request: HaltAgent, abort_waiting: Callable[[Agent], bool]
    ) -> AnyReply:
        """Abort a turn; the agent stays. An unknown target is no error."""
        target = self._descendant(asker, request.target, verb="interrupt")
        if target is None:
            return PreviousStatus(status=NOT_FOUND)
        before = target.status
        if not abort_waiting(target):
            await self._interrupt(target, f"{asker.path} interrupted it")
        return PreviousStatus(status=before)

    async def _interrupt(self, target: Agent, reason: str) -> None:
        if not target.is_live:
            return
        with trio.move_on_after(_HALT_LIMIT_S):
            try:
                await self._run.send(target, Interrupt(reason=reason))
            except PeerGone:
                return

    async def close(self, asker: Agent, request: CloseAgent) -> AnyReply:
        """End an agent and all its descendants for good."""
        target = self._descendant(asker, request.target, verb="close")
        if target is None:
            return PreviousStatus(status=NOT_FOUND)
        before = target.status
        await self.end_members(self._team.subtree(target.path))
        return PreviousStatus(status=before)

    async def end_members(
        self, members: Sequence[Agent], *, grace_s: float = CLOSE_GRACE_S
    ) -> None:
        """End these in parallel and for good; those that wait for a slot give up waiting."""
        required: list[tuple[Agent, frozenset[Effect]]] = []
        for member in members:
            required.append((member, self._team.apply(member, AgentEvent.CLOSED)))
            if (parent := self._team.members.get(member.plan.parent or "")) is not None:
                parent.children.pop(member.path, None)
            self._mail.bounce_all(member, reason=f"{member.path} was ended for good")
        async with trio.open_nursery() as nursery:
            for member, effects in required:
                if Effect.END_PROCESS in effects:
                    member.request_end("killed")
                    nursery.start_soon(partial(self._agents.end, member, grace_s=grace_s))
                elif Effect.RECORD_END in effects:
                    self._end_without_process(member)
        self._team.notify_change()

    def _end_without_process(self, member: Agent) -> None:
        """End an agent that is suspended or queued; a first start in progress is cancelled."""
        if member.start_scope is not None:
            member.start_scope.cancel()
        member.take_suspended()
        outcome = AgentEnded(
            agent_id=member.plan.agent_id, state="killed", message="it was ended for good"
        )
        member.end_work(outcome)
        if member.has_started:
            self._run.note(outcome, agent=member.path)

    def _descendant(self, asker: Agent, target: str, *, verb: str) -> Agent | None:
        try:
            path = resolve_path(target, base=AgentPath(asker.path))
        except ValueError as error:
            raise AgentRequestError(str(error)) from error
        if path == ROOT_PATH and verb == "close":
            raise AgentRequestError("root is not a spawned agent")
        if path == asker.path:
            raise AgentRequestError(
                f"you cannot {verb} yourself: to end, return your result as your final answer"
            )
        if not is_within(path, AgentPath(asker.path)):
            raise AgentRequestError(
                f"{path} is not below you: an agent may {verb} only its descendants"
            )
        return self._team.find(path)


def _sent(reader: Agent) -> AnyReply:
    if reader.closed:
        return RequestRefused(message=f"not delivered: {reader.path} was ended for good")
    return Sent()
