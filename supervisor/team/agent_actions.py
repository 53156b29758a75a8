"""Requests that act on other agents: send mail, give a task, list, interrupt, close.

An agent interrupts and closes only its descendants. Every end is bounded: ask, TERM, KILL.
"""

from collections.abc import Callable, Sequence
from functools import partial

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.ids import ROOT_PATH, AgentPath, is_within, resolve_path
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

from ..agents.agent_manager import AgentManager
from ..agents.child_plan import AgentRequestError, check_message
from ..agents.lifecycle import AgentLifecycle
from ..agents.team_agent import TeamAgent
from ..run_context import RunContext
from .mail_delivery import MAX_UNREAD, MailDelivery
from .team_members import TeamMembers
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
        control: AgentManager,
        team: TeamMembers,
        post: MailDelivery,
        lives: AgentLifecycle,
    ) -> None:
        self._run, self._agents, self._team = running, control, team
        self._mail, self._lifecycle = post, lives

    # --- mail ----------------------------------------------------------------------------------

    async def send(self, asker: TeamAgent, wish: SendMail) -> AnyReply:
        """Send mail that starts no turn."""
        reader = self._recipient(asker, wish.target, wish.message)
        letter = self._mail.make_mail(asker.path, reader.path, wish.message)
        await self._mail.send_and_wait_written(reader, letter)
        return _sent(reader)

    async def follow_up(self, asker: TeamAgent, wish: FollowUp) -> AnyReply:
        """Give a task to an existing agent, working or finished."""
        reader = self._recipient(asker, wish.target, wish.message)
        if reader.path == ROOT_PATH:
            raise AgentRequestError("Follow-up tasks can't target the root agent")
        if wish.interrupt and not reader.closed:
            await self._interrupt(reader, f"{asker.path} has another task for it")
        letter = self._mail.make_mail(
            asker.path, reader.path, wish.message, kind="followup", wakes=True
        )
        await self._mail.send_and_wait_written(reader, letter)
        return _sent(reader)

    def _recipient(self, asker: TeamAgent, target: str, message: str) -> TeamAgent:
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

    def list_team(self, asker: TeamAgent, wish: ListAgents) -> AnyReply:
        """The root first, then by path; closed agents are left out."""
        prefix = ROOT_PATH
        if wish.path_prefix:
            try:
                prefix = resolve_path(wish.path_prefix, base=AgentPath(asker.path))
            except ValueError as error:
                raise AgentRequestError(str(error)) from error
        found = [
            self._list_entry(one)
            for one in sorted(self._team.subtree(prefix), key=lambda one: one.path)
            if not one.closed
        ]
        return TeamReply(members=tuple(found))

    def _list_entry(self, member: TeamAgent) -> TeamMember:
        told = member.as_reply()
        if member.path != ROOT_PATH:
            return told
        return TeamMember(path=told.path, status=told.status, last_task=ROOT_TASK, role=told.role)

    # --- ending --------------------------------------------------------------------------------

    async def halt(
        self, asker: TeamAgent, wish: HaltAgent, abort_waiting: Callable[[TeamAgent], bool]
    ) -> AnyReply:
        """Abort a turn; the agent stays. An unknown target is no error."""
        target = self._descendant(asker, wish.target, verb="interrupt")
        if target is None:
            return PreviousStatus(status=NOT_FOUND)
        before = target.state
        if not abort_waiting(target):
            await self._interrupt(target, f"{asker.path} interrupted it")
        return PreviousStatus(status=before)

    async def _interrupt(self, target: TeamAgent, reason: str) -> None:
        if target.live_agent is None:
            return
        with trio.move_on_after(_HALT_LIMIT_S):
            try:
                await self._run.send(target.live_agent, Interrupt(reason=reason))
            except PeerGone:
                return

    async def close(self, asker: TeamAgent, wish: CloseAgent) -> AnyReply:
        """End an agent and all its descendants for good."""
        target = self._descendant(asker, wish.target, verb="close")
        if target is None:
            return PreviousStatus(status=NOT_FOUND)
        before = target.state
        await self.end_members(self._team.subtree(target.path))
        return PreviousStatus(status=before)

    async def end_members(
        self, members: Sequence[TeamAgent], *, grace_s: float = CLOSE_GRACE_S
    ) -> None:
        """End these in parallel and for good; those that wait for a slot give up waiting."""
        for member in members:
            member.closed = True
            if (parent := self._team.members.get(member.plan.parent or "")) is not None:
                parent.children.pop(member.path, None)
            self._mail.bounce_all(member, reason=f"{member.path} was ended for good")
        async with trio.open_nursery() as nursery:
            for member in members:
                if (life := member.live_agent) is not None and life.path in self._agents.agents:
                    life.wanted_end = "killed"
                    nursery.start_soon(partial(self._agents.end, life, grace_s=grace_s))
                else:
                    self._end_without_process(member)
        self._team.notify_change()

    def _end_without_process(self, member: TeamAgent) -> None:
        """End a member that is finished, suspended or queued; cancel a first start in progress."""
        if not member.is_active:
            return
        if member.start_scope is not None:
            member.start_scope.cancel()
        member.suspended, member.live_agent = None, None
        outcome = AgentEnded(
            agent_id=member.plan.agent_id, state="killed", message="it was ended for good"
        )
        member.outcome = outcome
        if member.epoch:
            self._run.note(outcome, agent=member.path)
        self._team.set_state(member, "killed")

    def _descendant(self, asker: TeamAgent, target: str, *, verb: str) -> TeamAgent | None:
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


def _sent(reader: TeamAgent) -> AnyReply:
    if reader.closed:
        return RequestRefused(message=f"not delivered: {reader.path} was ended for good")
    return Sent()
