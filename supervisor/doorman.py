"""Other terminals' door: look at the run, speak to an agent, interrupt or end it.

A process that descends from a run, this one or another, has no rights here, not even to look:
nobody steers a swarm by the back door (`outsiders.py`).
"""

import logging
from collections.abc import Callable
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.control import ControlCall, ControlServer
from swarm.mailbox.errors import MessageTooLarge
from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.control import (
    AnyControl,
    AnyControlReply,
    Approvals,
    ChangeSettings,
    CompactAgent,
    ContinueAgent,
    Done,
    GetSnapshot,
    InterruptAgent,
    KillAgent,
    ListApprovals,
    PauseAgent,
    Refused,
    ResolveApproval,
    ReviewWork,
    RollBack,
    SendText,
    Snapshot,
    UndoFiles,
    decode_control,
    encode_control,
)
from swarm.mailbox.protocol.ops import TextInput, UserInput

from .adjusting import Adjusting
from .agency.agency import Agency
from .agency.inherit import NotPossible
from .agency.member import Member
from .approvals.answers import Answers
from .compacting import compact_agent
from .control import Control
from .keeping.keeping import Keeping
from .outsiders import refusal_for
from .rewinding import roll_back
from .running import Running

_log = logging.getLogger("swarm.doorman")


class Doorman:
    """Serves the control socket until cancelled. `stop_run` ends the run as killed."""

    def __init__(
        self,
        running: Running,
        control: Control,
        agency: Agency,
        server: ControlServer,
        stop_run: Callable[[], None],
    ) -> None:
        self._run, self._control, self._server = running, control, server
        self._agency = agency
        self._stop_run = stop_run
        self._tasks: trio.Nursery | None = None  # for what goes on behind an answer
        self._adjusting = Adjusting(running, control, agency, self._member)
        self.answers: Answers | None = None  # both are set before it serves
        self.keeping: Keeping | None = None

    async def serve(self) -> None:
        """Each call is answered by a task of its own: a slow one holds up nobody."""
        async with trio.open_nursery() as nursery:
            self._tasks = nursery
            while True:
                call = await self._server.receive()
                nursery.start_soon(self._serve_one, call)

    async def _serve_one(self, call: ControlCall) -> None:
        reply: AnyControlReply
        try:
            wish = decode_control(call.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reply = Refused(message=f"that request cannot be read: {error}", exit_code=2)
        else:
            reply = await self._obey(wish, call.peer_pid)
        try:
            self._server.reply(call, encode_control(reply))
        except MessageTooLarge as error:
            refused = Refused(message=f"the answer is too large to be told: {error}")
            self._server.reply(call, encode_control(refused))

    async def _obey(self, wish: AnyControl, peer_pid: int | None) -> AnyControlReply:
        if why := refusal_for(peer_pid):
            _log.warning("process %s asked to steer this run and was refused: %s", peer_pid, why)
            return Refused(message=why, exit_code=3)
        match wish:
            case GetSnapshot():
                return Snapshot(view=self._run.showing.current())
            case SendText():
                return await self._send(wish)
            case InterruptAgent():
                return await self._interrupt(wish.agent, keep_commands=wish.keep_commands)
            case ChangeSettings():
                return await self._adjusting.change(wish)
            case ReviewWork():
                return await self._review(wish)
            case PauseAgent(agent=path):
                return await self._adjusting.pause(path, paused=True)
            case ContinueAgent(agent=path):
                return await self._adjusting.pause(path, paused=False)
            case KillAgent():
                return await self._kill(wish.agent)
            case ListApprovals():
                return Approvals(entries=self.answers.entries() if self.answers else ())
            case ResolveApproval():
                return await self._resolve(wish)
            case UndoFiles():
                return await self._undo(wish)
            case CompactAgent():
                return await self._compact(wish)
            case RollBack():
                return await self._roll_back(wish)
            case _:
                assert_never(wish)

    async def _send(self, wish: SendText) -> AnyControlReply:
        found = self._member(wish.agent or ROOT_PATH)
        if isinstance(found, Refused):
            return found
        if found.closed:
            return Refused(message=f"{found.path} was ended for good; nothing reaches it")
        if not wish.wake:
            await self._agency.leave_letter(found, wish.text)
            return Done(message=f"left for {found.path}; it is read at its next turn")
        words = UserInput(
            input_id=self._run.chances.new_id(),
            parts=(TextInput(text=wish.text),),
            output_schema=self._run.request.answer_schema if found.path == ROOT_PATH else None,
        )
        try:
            await self._agency.say(found, words)
        except NotPossible as error:
            return Refused(message=str(error))
        return Done(message=f"sent to {found.path}")

    async def _review(self, wish: ReviewWork) -> AnyControlReply:
        from .review.within import review_within  # seldom

        found = self._member(wish.agent or ROOT_PATH)
        if isinstance(found, Refused):
            return found
        if found.closed or self._tasks is None:
            return Refused(message=f"{found.path} was ended for good")
        return await review_within(self._run, self._agency, self._tasks, found, wish)

    async def _interrupt(self, path: str, *, keep_commands: bool) -> AnyControlReply:
        if not path:
            self._control.end_of_run.has_begun = True  # with nobody at work it does
            agents = list(self._control.agents.values())
            self._agency.interrupt_waiting()
        else:
            found = self._member(path)
            if isinstance(found, Refused):
                return found
            if self._agency.interrupt_suspended(found):
                return Done(message="interrupted 1 agent")
            agents = [found.life] if found.life is not None else []
        why = "a person interrupted it"
        await self._control.interrupt(agents, why, keep_commands=keep_commands)
        return Done(message=f"interrupted {_counted(len(agents))}")

    async def _kill(self, path: str) -> AnyControlReply:
        if not path or path == ROOT_PATH:
            self._stop_run()
            return Done(message="the run is being ended")
        member = self._member(path)
        if isinstance(member, Refused):
            return member
        below = self._agency.team.subtree(member.path)
        await self._agency.kill(below)
        return Done(message=f"ended {_counted(len(below))}")

    async def _resolve(self, wish: ResolveApproval) -> AnyControlReply:
        if self.answers is None:
            return Refused(message="this run asks nobody")
        return await self.answers.resolve(wish)

    async def _undo(self, wish: UndoFiles) -> AnyControlReply:
        if self.keeping is None:
            return Refused(message="this run keeps no files")
        return await self.keeping.undo(wish)

    async def _compact(self, wish: CompactAgent) -> AnyControlReply:
        found = self._member(wish.agent or ROOT_PATH)
        if isinstance(found, Refused):
            return found
        return await compact_agent(self._run, found, wish)

    async def _roll_back(self, wish: RollBack) -> AnyControlReply:
        found = self._member(wish.agent or ROOT_PATH)
        if isinstance(found, Refused):
            return found
        return await roll_back(self._run, found, wish)

    def _member(self, path: str) -> Member | Refused:
        """By full path, or by the last step of one when only one agent has it."""
        team = self._agency.team
        if (exact := team.find(path)) is not None:
            return exact
        fits = team.find_named(path.strip("/"))
        if len(fits) == 1:
            return fits[0]
        agents = self._control.agents
        known = ", ".join(sorted(agents)[:8]) or "none"
        return Refused(message=f"no live agent {path!r}; live now: {known}")


def _counted(number: int) -> str:
    return "1 agent" if number == 1 else f"{number} agents"
