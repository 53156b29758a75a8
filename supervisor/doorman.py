"""Other terminals' door: look at the run, speak to an agent, interrupt or end it.

A process that descends from this run has no rights here: nobody steers his own swarm by the back
door (ARCHITECTURE 6.8).
"""

import logging
import os
from collections.abc import Callable
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.control import ControlCall, ControlServer
from swarm.mailbox.ids import ROOT_PATH, new_uuid7
from swarm.mailbox.lineage import descendants_of
from swarm.mailbox.protocol.control import (
    AnyControl,
    AnyControlReply,
    Done,
    GetSnapshot,
    InterruptAgent,
    KillAgent,
    Refused,
    SendText,
    Snapshot,
    decode_control,
    encode_control,
)
from swarm.mailbox.protocol.ops import TextInput, UserInput

from .agency.agency import Agency
from .agency.team import Member
from .control import Control
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

    async def serve(self) -> None:
        """Each call is answered by a task of its own: a slow one holds up nobody."""
        async with trio.open_nursery() as nursery:
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
        self._server.reply(call, encode_control(reply))

    async def _obey(self, wish: AnyControl, peer_pid: int | None) -> AnyControlReply:
        if isinstance(wish, GetSnapshot):
            return Snapshot(view=self._run.showing.current())
        if peer_pid is None or peer_pid in descendants_of(os.getpid()):
            _log.warning("a process of the run itself asked to steer it; refused")
            return Refused(message="a process of this run may not steer it", exit_code=3)
        match wish:
            case SendText():
                return await self._send(wish)
            case InterruptAgent():
                return await self._interrupt(wish.agent)
            case KillAgent():
                return await self._kill(wish.agent)
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
        words = UserInput(input_id=new_uuid7(), parts=(TextInput(text=wish.text),))
        await self._agency.say(found, words)
        return Done(message=f"sent to {found.path}")

    async def _interrupt(self, path: str) -> AnyControlReply:
        if not path:
            agents = list(self._control.agents.values())
            self._agency.interrupt_waiting()
        else:
            found = self._member(path)
            if isinstance(found, Refused):
                return found
            if self._agency.interrupt_suspended(found):
                return Done(message="interrupted 1 agent")
            agents = [found.life] if found.life is not None else []
        await self._control.interrupt(agents, "a person interrupted it")
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

    def _member(self, path: str) -> Member | Refused:
        """By full path, or by the last step of one when only one agent has it."""
        members = self._agency.team.members
        if (exact := members.get(path)) is not None:
            return exact
        fits = [one for one in members.values() if one.path.endswith(f"/{path.strip('/')}")]
        if len(fits) == 1:
            return fits[0]
        agents = self._control.agents
        known = ", ".join(sorted(agents)[:8]) or "none"
        return Refused(message=f"no live agent {path!r}; live now: {known}")


def _counted(number: int) -> str:
    return "1 agent" if number == 1 else f"{number} agents"
