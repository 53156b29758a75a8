"""The control socket: other terminals inspect the run, send input, interrupt or end agents.

A process that descends from a run (this one or another) is refused every request, also a mere view:
no agent may steer a swarm through this socket (`refusal_for`).
"""

import logging
from typing import NamedTuple, assert_never

import msgspec
import trio

from swarm.mailbox.base.errors import MessageTooLarge
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.delivery.control_channel import ControlRequest, ControlServer
from swarm.mailbox.parts.part_messages import PartControl
from swarm.mailbox.protocol.control import (
    AcceptPlan,
    AnyControl,
    AnyControlReply,
    Approvals,
    ChangeSettings,
    CompactAgent,
    ContinueAgent,
    Done,
    EndRun,
    GetSnapshot,
    InterruptAgent,
    KillAgent,
    ListApprovals,
    MergeChanges,
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

from ..agents.agent_record import Agent
from ..agents.child_plan import AgentRequestError
from ..agents.life.agent_manager import AgentManager
from ..agents.rights_widening import PLAN_ACCEPTED
from ..approvals.queue.approval_answers import ApprovalAnswers
from ..context.run_context import RunContext
from ..control_requests.caller_rights import refusal_for
from ..control_requests.history_requests import compact_agent, roll_back
from ..control_requests.sent_input import make_input
from ..control_requests.settings_requests import SettingsRequests
from ..parts.undo.live.file_history import FileHistory
from ..team.person_input import RunEnds
from ..team.team_service import TeamService
from ..workload.run_shutdown import RunShutdown

_log = logging.getLogger("swarm.control_server")
_ROOT_LIMIT_S = 8.0  # less than clients wait for a reply
_ForAgent = SendText | ReviewWork | CompactAgent | RollBack | ChangeSettings | AcceptPlan


class ControlledParts(NamedTuple):
    """The parts of a run on which requests act."""

    agents: AgentManager
    team_service: TeamService
    shutdown: RunShutdown
    approval_answers: ApprovalAnswers
    file_history: FileHistory


class ControlService:
    """Serves the control socket until cancelled."""

    def __init__(self, running: RunContext, server: ControlServer, parts: ControlledParts) -> None:
        self._run, self._server = running, server
        self._agents, self._team_service = parts.agents, parts.team_service
        self._shutdown, self._file_history = parts.shutdown, parts.file_history
        self._approval_answers = parts.approval_answers
        self._tasks: trio.Nursery | None = None  # for tasks that outlast a reply
        self._settings_requests = SettingsRequests(running, parts.team_service, self._find_agent)

    async def serve(self) -> None:
        """Serve each request in its own task, so that a slow one does not delay the others."""
        async with trio.open_nursery() as nursery:
            self._tasks = nursery
            while True:
                call = await self._server.receive()
                nursery.start_soon(self._serve_one, call)

    async def _serve_one(self, call: ControlRequest) -> None:
        reply: AnyControlReply
        try:
            request = decode_control(call.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reply = Refused(message=f"that request cannot be read: {error}", exit_code=2)
        else:
            reply = await self._handle(request, call.peer_pid)
        try:
            self._server.reply(call, encode_control(reply))
        except MessageTooLarge as error:
            refused = Refused(message=f"the answer is too large to be told: {error}")
            self._server.reply(call, encode_control(refused))

    async def _handle(self, request: AnyControl, peer_pid: int | None) -> AnyControlReply:
        if why := refusal_for(peer_pid):
            _log.warning("process %s asked to steer this run and was refused: %s", peer_pid, why)
            return Refused(message=why, exit_code=3)
        if isinstance(request, _ForAgent):
            await self._wait_root()
        if isinstance(request, PartControl):
            return await self._team_service.parts.control(request)
        match request:
            case GetSnapshot():
                return Snapshot(view=self._run.broadcast.current_view())
            case InterruptAgent():
                return await self._interrupt(request.agent, keep_commands=request.keep_commands)
            case ChangeSettings():
                return await self._settings_requests.change_settings(request)
            case AcceptPlan():
                return await self._accept_plan(request)
            case PauseAgent() | ContinueAgent():
                return await self._pause_or_continue(request)
            case KillAgent():
                return await self._kill(request.agent)
            case EndRun():
                return self._end_run()
            case ListApprovals(approval_id=wanted):
                return Approvals(entries=self._approval_answers.entries(wanted))
            case ResolveApproval():
                return await self._approval_answers.resolve(request)
            case UndoFiles() | MergeChanges():
                return await self._write_files(request)
            case SendText() | ReviewWork() | CompactAgent() | RollBack():
                found = self._find_agent(request.agent or ROOT_PATH)
                return found if isinstance(found, Refused) else await self._ask(found, request)
            case _:
                assert_never(request)

    async def _write_files(self, request: UndoFiles | MergeChanges) -> AnyControlReply:
        if isinstance(request, UndoFiles):
            return await self._file_history.undo(request)
        from ..parts.copies.live.live_merges import merge_in_live_run  # rarely needed

        return await merge_in_live_run(self._run, self._file_history, request)

    async def _ask(
        self, agent: Agent, request: SendText | ReviewWork | CompactAgent | RollBack
    ) -> AnyControlReply:
        match request:
            case SendText():
                return await self._send(agent, request)
            case ReviewWork():
                return await self._review(agent, request)
            case CompactAgent():
                return await compact_agent(self._run, agent, request)
            case RollBack():
                return await roll_back(self._run, agent, request)

    async def _send(self, agent: Agent, request: SendText) -> AnyControlReply:
        if agent.closed:
            return Refused(message=f"{agent.path} was ended for good; nothing reaches it")
        if not request.wake:
            await self._team_service.leave_message(agent, request.text)
            return Done(message=f"left for {agent.path}; it is read at its next turn")
        user_input = await make_input(self._run, agent.path, request)
        if isinstance(user_input, Refused):
            return user_input
        try:
            await self._team_service.send_input(agent, user_input)
        except AgentRequestError as error:
            return Refused(message=str(error), run_ends=isinstance(error, RunEnds))
        return Done(message=f"sent to {agent.path}")

    async def _accept_plan(self, request: AcceptPlan) -> AnyControlReply:
        """The journal has the wider rights before the agent is told to go on."""
        reply = await self._settings_requests.accept_plan(request)
        if isinstance(reply, Refused):
            return reply
        agent = self._find_agent(request.agent or ROOT_PATH)
        if isinstance(agent, Refused):
            return agent
        text = request.text or PLAN_ACCEPTED
        sent = await self._send(agent, SendText(agent=agent.path, text=text))
        return sent if isinstance(sent, Refused) else reply

    async def _review(self, agent: Agent, request: ReviewWork) -> AnyControlReply:
        from ..parts.review.review_mode import start_child_review  # rarely needed

        if agent.closed or self._tasks is None:
            return Refused(message=f"{agent.path} was ended for good")
        return await start_child_review(self._run, self._team_service, self._tasks, agent, request)

    async def _interrupt(self, path: str, *, keep_commands: bool) -> AnyControlReply:
        why = "a person interrupted it"
        if not path:
            count = await self._shutdown.interrupt_all(why, keep_commands=keep_commands)
            return Done(message=f"interrupted {_agent_count(count)}")
        found = self._find_agent(path)
        if isinstance(found, Refused):
            return found
        if found.path == ROOT_PATH and found.is_active:
            self._shutdown.note_root_interrupt()
        if self._team_service.interrupt_suspended(found):
            return Done(message="interrupted 1 agent")
        agents = [found] if found.is_live else []
        await self._agents.interrupt(agents, why, keep_commands=keep_commands)
        return Done(message=f"interrupted {_agent_count(len(agents))}")

    def _end_run(self) -> AnyControlReply:
        at_once = self._shutdown.is_idle
        self._shutdown.finish()
        return Done(message="the run ends" if at_once else "the run ends when its work is done")

    async def _pause_or_continue(self, request: PauseAgent | ContinueAgent) -> AnyControlReply:
        """Begin or end a pause; the whole run goes on also where it waits for a limit."""
        path, paused = request.agent, isinstance(request, PauseAgent)
        reply = await self._settings_requests.set_paused(path, paused=paused)
        if not (paused or path) and await self._team_service.parts.try_now():
            return Done(message="the run goes on: the limit that it waited for is tried now")
        return reply

    async def _kill(self, path: str) -> AnyControlReply:
        if not path or path == ROOT_PATH:
            self._shutdown.terminate()
            return Done(message="the run is being ended")
        member = self._find_agent(path)
        if isinstance(member, Refused):
            return member
        below = self._team_service.team.subtree(member.path)
        await self._team_service.kill(below)
        return Done(message=f"ended {_agent_count(len(below))}")

    async def _wait_root(self) -> None:
        """A run that is only starting has no agent yet; a fan-out has its root after the items."""
        team = self._team_service.team
        if self._run.request.fan_out is not None:
            return
        with trio.move_on_after(_ROOT_LIMIT_S):
            while ROOT_PATH not in team.members and not self._agents.run_life.is_ending:
                await team.wait_change()

    def _find_agent(self, path: str) -> Agent | Refused:
        """Find by full path, or by the path's last step when only one agent has it."""
        team = self._team_service.team
        if (exact := team.find(path)) is not None:
            return exact
        fits = team.find_named(path.strip("/"))
        if len(fits) == 1:
            return fits[0]
        agents = self._agents.agents
        known = ", ".join(sorted(agents)[:8]) or "none"
        return Refused(message=f"no live agent {path!r}; live now: {known}")


def _agent_count(number: int) -> str:
    return "1 agent" if number == 1 else f"{number} agents"
