"""What one agent may do to others: write, give a task, list, halt, close. And a person: all of it.

Rule guarded: an agent halts and closes only what is below it; every ending is bounded by the ladder
of ask, TERM, KILL.
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
from swarm.mailbox.protocol.requests import (
    Team as TeamReply,
)

from ..control import Control
from ..running import Running
from .inherit import NotPossible, check_message
from .letters import MOST_UNREAD, Post
from .lives import Lives
from .member import Member
from .team import Team
from .waiting_calls import find_member

CLOSE_GRACE_S = 5.0
_HALT_LIMIT_S = 5.0
NOT_FOUND = "not_found"
ROOT_TASK = "Main thread"


class Verbs:
    """Serves the requests that act on members."""

    def __init__(
        self, running: Running, control: Control, team: Team, post: Post, lives: Lives
    ) -> None:
        self._run, self._control, self._team = running, control, team
        self._post, self._lives = post, lives

    # --- letters -------------------------------------------------------------------------------

    async def send(self, asker: Member, wish: SendMail) -> AnyReply:
        """A letter that wakes nobody."""
        reader = self._reader(asker, wish.target, wish.message)
        letter = self._post.write(asker.path, reader.path, wish.message)
        await self._post.post_and_wait(reader, letter)
        return _sent(reader)

    async def follow_up(self, asker: Member, wish: FollowUp) -> AnyReply:
        """A task for an agent that is there, working or finished."""
        reader = self._reader(asker, wish.target, wish.message)
        if reader.path == ROOT_PATH:
            raise NotPossible("Follow-up tasks can't target the root agent")
        if wish.interrupt and not reader.closed:
            await self._interrupt(reader, f"{asker.path} has another task for it")
        letter = self._post.write(
            asker.path, reader.path, wish.message, kind="followup", wakes=True
        )
        await self._post.post_and_wait(reader, letter)
        return _sent(reader)

    def _reader(self, asker: Member, target: str, message: str) -> Member:
        check_message(message)
        reader = find_member(self._team, asker, target)
        if reader is asker:
            raise NotPossible("that is you: a message to yourself goes nowhere")
        if len(reader.letters) >= MOST_UNREAD:
            raise NotPossible(
                f"{reader.path} has {MOST_UNREAD} unread messages; it gets no more until it reads"
            )
        return reader

    # --- looking -------------------------------------------------------------------------------

    def list_team(self, asker: Member, wish: ListAgents) -> AnyReply:
        """The root first, then by path; those that were closed are left out."""
        prefix = ROOT_PATH
        if wish.path_prefix:
            try:
                prefix = resolve_path(wish.path_prefix, base=AgentPath(asker.path))
            except ValueError as error:
                raise NotPossible(str(error)) from error
        found = [
            self._as_listed(one)
            for one in sorted(self._team.subtree(prefix), key=lambda one: one.path)
            if not one.closed
        ]
        return TeamReply(members=tuple(found))

    def _as_listed(self, member: Member) -> TeamMember:
        told = member.as_told()
        if member.path != ROOT_PATH:
            return told
        return TeamMember(path=told.path, status=told.status, last_task=ROOT_TASK, role=told.role)

    # --- ending --------------------------------------------------------------------------------

    async def halt(
        self, asker: Member, wish: HaltAgent, abort_waiting: Callable[[Member], bool]
    ) -> AnyReply:
        """Abort a turn; the agent stays. Who is not there needs no halt."""
        target = self._below(asker, wish.target, verb="interrupt")
        if target is None:
            return PreviousStatus(status=NOT_FOUND)
        before = target.state
        if not abort_waiting(target):
            await self._interrupt(target, f"{asker.path} interrupted it")
        return PreviousStatus(status=before)

    async def _interrupt(self, target: Member, reason: str) -> None:
        if target.life is None:
            return
        with trio.move_on_after(_HALT_LIMIT_S):
            try:
                await self._run.send(target.life, Interrupt(reason=reason))
            except PeerGone:
                return

    async def close(self, asker: Member, wish: CloseAgent) -> AnyReply:
        """End an agent and all below it, for good."""
        target = self._below(asker, wish.target, verb="close")
        if target is None:
            return PreviousStatus(status=NOT_FOUND)
        before = target.state
        await self.end_members(self._team.subtree(target.path))
        return PreviousStatus(status=before)

    async def end_members(
        self, members: Sequence[Member], *, grace_s: float = CLOSE_GRACE_S
    ) -> None:
        """End these for good, side by side; who stands in line for them is refused."""
        for member in members:
            member.closed = True
            if (parent := self._team.members.get(member.plan.parent or "")) is not None:
                parent.children.pop(member.path, None)
            self._post.bounce_all(member, reason=f"{member.path} was ended for good")
        async with trio.open_nursery() as nursery:
            for member in members:
                if (life := member.life) is not None and life.path in self._control.agents:
                    life.wanted_end = "killed"
                    nursery.start_soon(partial(self._control.end, life, grace_s=grace_s))
                else:
                    self._end_without_process(member)
        self._team.ring()

    def _end_without_process(self, member: Member) -> None:
        """It is finished, suspended, or in line; a first life in line is withdrawn by its wish."""
        if not member.is_active:
            return
        if member.birth is not None:
            member.birth.cancel()
        member.suspended, member.life = None, None
        outcome = AgentEnded(
            agent_id=member.plan.agent_id, state="killed", message="it was ended for good"
        )
        member.outcome = outcome
        if member.epoch:
            self._run.note(outcome, agent=member.path)
        self._team.set_state(member, "killed")

    def _below(self, asker: Member, target: str, *, verb: str) -> Member | None:
        try:
            path = resolve_path(target, base=AgentPath(asker.path))
        except ValueError as error:
            raise NotPossible(str(error)) from error
        if path == ROOT_PATH and verb == "close":
            raise NotPossible("root is not a spawned agent")
        if path == asker.path:
            raise NotPossible(
                f"you cannot {verb} yourself: to end, return your result as your final answer"
            )
        if not is_within(path, AgentPath(asker.path)):
            raise NotPossible(f"{path} is not below you: an agent may {verb} only its descendants")
        return self._team.find(path)


def _sent(reader: Member) -> AnyReply:
    if reader.closed:
        return RequestRefused(message=f"not delivered: {reader.path} was ended for good")
    return Sent()
