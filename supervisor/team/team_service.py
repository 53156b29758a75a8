"""Team service: serves agents' requests, and passes on what happens to agents.

Every request ends in one reply, which may be a refusal with a reason, or with the process that sent
it. An agent can only end or interrupt its descendants.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.parts.part_messages import PartQuestion
from swarm.mailbox.protocol.ops import Answer, UserInput
from swarm.mailbox.protocol.records import AgentEnded
from swarm.mailbox.protocol.requests import (
    AnyReply,
    CloseAgent,
    FollowUp,
    HaltAgent,
    ListAgents,
    QueuedForSlot,
    RequestRefused,
    SendMail,
    Spawn,
    TeamRequest,
    WaitFor,
)

from ..agents.agent_hooks import AgentHooks
from ..agents.agent_phases import AgentEvent, Effect
from ..agents.agent_record import Agent, AgentPlan
from ..agents.child_plan import AgentRequestError
from ..agents.end_states import GOOD_ENDS
from ..agents.life.agent_manager import AgentManager
from ..agents.life.agent_start import StartServices
from ..agents.life.lifecycle import SUSPENDABLE_TOOLS, AgentLifecycle
from ..agents.life.mail_delivery import MailDelivery, report_to_parent, unreported_ends
from ..agents.life.resume_continuation import continue_cut_off, has_work_after_end
from ..agents.life.resume_unstarted import close_unstarted
from ..agents.life.slot_deadlock import DeadlockDetector, LiveSlotUsers
from ..agents.life.spawning import AgentSpawner
from ..context.run_context import RunContext
from ..context.run_phases import RunEvent
from ..journal.replay import RunPast
from ..part_access.part_host import Fate, PartTeam
from ..part_calls.part_services import PartServices
from ..parts.run_parts import RunParts
from .agent_actions import AgentActions
from .person_input import PersonInput
from .resume_team import restore_team, restored_agent
from .wait_calls import WaitCalls

MAX_OPEN_REQUESTS = 64  # per process at a time
_CRASH_STATES = frozenset({"crashed", "killed"})
_LIMIT_STATES = frozenset({"budget", "deadline"})  # a resume may raise these limits


class TeamService:
    """One per run, made by `run_team_service`. Serves agents' requests and follows their work."""

    def __init__(
        self,
        running: RunContext,
        nursery: trio.Nursery,
        starts: StartServices,
        parts: RunParts,
        hooks: AgentHooks = AgentHooks(),  # noqa: B008 — immutable
    ) -> None:
        self._run, self._nursery, self.team = running, nursery, running.agents
        self.agents = AgentManager(running, nursery, starts, hooks, listener=self)
        self._open: dict[str, dict[int, tuple[TeamRequest, trio.CancelScope]]] = {}
        self.lifecycle = AgentLifecycle(
            running, self.agents, nursery, self._open_requests, self._on_start_failed
        )
        self.mail = MailDelivery(running, nursery, self._wake)
        users = LiveSlotUsers(running, self.agents, self.lifecycle, self._open_requests)
        self._deadlock_detector = DeadlockDetector(users)
        self.spawner = AgentSpawner(
            running,
            self.agents,
            self.mail,
            self._deadlock_detector,
            hooks.find_model or (lambda: None),
        )
        self.actions = AgentActions(running, self.agents, self.mail)
        self._wait_calls = WaitCalls(self.team, self.mail, self.lifecycle)
        team = PartTeam(self.agents, self.spawner, self.mail, self.lifecycle, hooks.try_now)
        self.parts = PartServices(running, parts, team, nursery)
        self._person_input = PersonInput(running, self.agents, self._wake)
        nursery.start_soon(self._deadlock_detector.run)

    @property
    def is_idle(self) -> bool:
        """True if no agent works or waits for a slot, and no mail or input will wake one."""
        return self.team.is_idle and self.parts.is_idle and self._person_input.is_idle

    async def wait_done(
        self, *, waits_for_all: Callable[[AgentEnded], bool] = lambda ended: False
    ) -> AgentEnded:
        """Return how the root's work ended, once the run's work is done.

        That is when the root's turn has ended, no agent works or waits for a slot, and no mail will
        wake one; or at once when the root failed or was stopped, unless `waits_for_all` says that
        the others go on after this end of the root.
        """
        while True:
            root = self.team.members.get(ROOT_PATH)
            outcome = None if root is None else root.outcome
            if root is not None and root.is_active and not (outcome and outcome.cut_off):
                outcome = None  # else mail has started a turn while the run ends
            if outcome is not None and (
                self.is_idle or not (outcome.state in GOOD_ENDS or waits_for_all(outcome))
            ):
                return outcome
            await self.team.wait_change()

    def rest(self, root: Agent) -> None:
        """The run waits for input: end the root's process, once it has no command left."""
        self._nursery.start_soon(self.lifecycle.end_resting, root)

    def restore(self, past: RunPast, root: AgentPlan) -> None:
        """Restore a resumed run's team; its unfinished agents continue.

        The caller starts the root; mail that comes before its Hello waits for it.
        """
        top = self.team.add(Agent(root))  # so that its children can report to it
        top.begin_start()  # the caller starts it: no mail does
        known = {one.spawned.agent_id for one in past.agents.values()} | self.parts.restore()
        for plan, agent_past in restore_team(past, self.spawner.roles, root):
            agent = self.team.add(restored_agent(plan, agent_past))
            self._run.agents.registry.restore_path(agent.path, agent_id=plan.agent_id)
            self.spawner.limits.count_restored()
            if agent_past.is_unfinished:
                continue_cut_off(self._run, agent_past)
                self._wake(agent)
            elif not agent.closed and has_work_after_end(self._run.paths, agent_past):
                self._wake(agent)
        for child in unreported_ends(self._run.paths, past):
            if (outcome := past.agents[child].ended) and (of := self.team.members.get(child)):
                report_to_parent(self._run, self.mail, of, outcome)
        close_unstarted(self._run, self.mail, known)

    async def send_input(self, member: Agent, message: UserInput) -> None:
        """Send a person's input to an agent, with or without a process. Journaled on return.

        Raises AgentRequestError: no agent will read it in this run.
        """
        await self._person_input.send(member, message)

    async def leave_message(self, member: Agent, text: str) -> None:
        """A person's message that starts no turn: the agent reads it at its next turn, if any."""
        await self.mail.send_and_wait_written(
            member, self.mail.make_mail("person", member.path, text)
        )

    def close(self) -> None:
        """The run ends: refuse new spawns, cancel all waiting requests."""
        self._person_input.close()
        self.parts.set_fate("later")
        self.parts.cancel_all()
        for asked in tuple(self._open.values()):
            for _, scope in tuple(asked.values()):
                scope.cancel()
        self._run.agents.registry.close("the run is ending; nothing new starts")

    async def kill(self, members: Sequence[Agent]) -> None:
        """A person's `swarm kill` of a subtree: at once, for good; its parent is told."""
        top = members[0]
        was_active, parent = top.is_active, self.team.members.get(top.plan.parent or "")
        await self.actions.end_members(members, grace_s=1.0)
        if was_active and parent is not None and not parent.closed and top.plan.reports:
            note_text = "(killed) a person ended it for good"
            wakes = self._run.request.team.wake_parents
            note = self.mail.make_mail(
                top.path, parent.path, note_text, kind="final_answer", wakes=wakes
            )
            self.mail.send(parent, note)

    def interrupt_waiting(self, *, fate: Fate = "later") -> None:
        """Apply Ctrl-C to suspended turns and to jobs without a turn.

        Whether a resume continues the jobs, `fate` says.
        """
        self.parts.set_fate(fate)
        self.parts.cancel_all()
        for member in tuple(self.team.members.values()):
            self.interrupt_suspended(member)
        self.team.notify_change()  # a run that waits for input ends

    def interrupt_suspended(self, member: Agent) -> bool:
        """Abort a suspended turn; False if there is none."""
        if not self.lifecycle.abort_suspended(member):
            return False
        self._cancel_requests(member.path)
        return True

    def serve(self, agent: Agent, request_id: int, request: TeamRequest) -> None:
        """Serve one request beside the others. Never waits."""
        asked = self._open.setdefault(agent.path, {})
        member = self.team.members.get(agent.path)
        if len(asked) >= MAX_OPEN_REQUESTS or request_id in asked or member is None:
            reply = RequestRefused(message="too many requests at once; wait for their answers")
            self._nursery.start_soon(self._reply, agent, request_id, reply)
            return
        scope = trio.CancelScope()
        asked[request_id] = request, scope
        self._nursery.start_soon(self._serve_one, agent, member, request_id)

    async def _serve_one(self, agent: Agent, member: Agent, request_id: int) -> None:
        asked = self._open[agent.path]
        request, scope = asked[request_id]
        epoch, reply = agent.epoch, None
        try:
            with scope:
                reply = await self._handle(agent, member, request_id, request)
        except AgentRequestError as error:
            reply = RequestRefused(message=str(error))
        finally:
            asked.pop(request_id, None)
            if not asked and self._open.get(agent.path) is asked:
                del self._open[agent.path]
        if reply is None:
            return
        waiting = member.suspended
        tool = None if waiting is None else SUSPENDABLE_TOOLS.get(waiting.tool)
        if tool is not None and isinstance(request, tool):
            self._wait_calls.resume(member, request, reply)
        elif agent.epoch == epoch:
            await self._reply(agent, request_id, reply)

    async def _handle(
        self, agent: Agent, member: Agent, request_id: int, request: TeamRequest
    ) -> AnyReply:
        if isinstance(request, PartQuestion):
            return await self.parts.answer(member, request)
        match request:
            case Spawn():
                self.parts.check_new_agent()
                place = self._position_sender(agent, member, request_id, request.task_name)
                return await self.spawner.spawn(member, request, place)
            case SendMail():
                return await self.actions.send(member, request)
            case FollowUp():
                return await self.actions.follow_up(member, request)
            case WaitFor():
                return await self._wait_calls.wait(member, request)
            case ListAgents():
                return self.actions.list_team(member, request)
            case HaltAgent():
                return await self.actions.halt(member, request, self.interrupt_suspended)
            case CloseAgent():
                return await self.actions.close(member, request)
            case _:
                assert_never(request)

    def _position_sender(
        self, agent: Agent, member: Agent, request_id: int, name: str
    ) -> Callable[[int], None]:
        path = f"{member.path}/{name}"

        def notify(place: int) -> None:
            self.lifecycle.show_position(path, place)
            reply = QueuedForSlot(place=place)
            self._nursery.start_soon(self._reply, agent, request_id, reply)

        return notify

    async def _reply(self, agent: Agent, request_id: int, reply: AnyReply) -> None:
        try:
            await self._run.send(agent, Answer(request_id=request_id, reply=reply))
        except PeerGone:
            return  # its process ended meanwhile; nobody waits

    def _open_requests(self, path: str) -> Iterator[TeamRequest]:
        return (request for request, _ in self._open.get(path, {}).values())

    def _cancel_requests(self, path: str) -> None:
        for _, scope in tuple(self._open.get(path, {}).values()):
            scope.cancel()

    def _wake(self, member: Agent) -> None:
        self.lifecycle.wake(member)
        self._deadlock_detector.wake()

    # --- what happens to agents ----------------------------------------------------------------

    def on_agent_event(
        self, agent: Agent, event: AgentEvent, effects: frozenset[Effect] = frozenset()
    ) -> None:
        """Called by the manager, for all agents but reviewers."""
        self.parts.on_agent_event(agent, event)
        match event:
            case AgentEvent.TURN_STARTED:  # nobody waits for what the last turn requested
                self._cancel_requests(agent.path)
            case AgentEvent.WORK_ENDED:
                self._on_work_ended(agent, effects)
            case AgentEvent.PROCESS_ENDED:
                if agent.wanted_end is None and not agent.process.said_goodbye:
                    self.parts.set_fate("now", asker=agent.path)  # it will be restarted
                self._cancel_requests(agent.path)
            case AgentEvent.PROCESS_GONE:
                self._on_process_gone(agent)
            case _:
                pass

    def _on_work_ended(self, agent: Agent, effects: frozenset[Effect]) -> None:
        outcome = agent.outcome
        assert outcome is not None
        if agent.process.turn is None and not agent.turn_ends_pending:
            # Else the open requests are its next turn's. As if its turn were interrupted:
            is_later = outcome.cut_off or outcome.state in _LIMIT_STATES
            self.parts.set_fate("later" if is_later else "cancelled", asker=agent.path)
            self._cancel_requests(agent.path)
        if self.team.members.get(agent.path) is not agent:
            return
        self._report_end(agent, outcome, effects)
        if agent.plan.parent is not None and agent.ends_with_work and not agent.gone.is_set():
            self._nursery.start_soon(self.lifecycle.retire, agent)

    def _on_process_gone(self, agent: Agent) -> None:
        if self.team.members.get(agent.path) is not agent:
            return
        if agent.process.suspending and not agent.closed:
            return
        assert agent.outcome is not None  # its work has ended by now
        state = "killed" if agent.closed else agent.outcome.state
        if state in _CRASH_STATES or not agent.plan.reports:
            self._give_up(agent, state)
        elif agent.has_waking_mail:
            self._wake(agent)
        self.team.notify_change()

    def _report_end(self, agent: Agent, outcome: AgentEnded, effects: frozenset[Effect]) -> None:
        agent.count_end()
        if Effect.REPORT_END in effects:
            report_to_parent(self._run, self.mail, agent, outcome)

    def _give_up(self, member: Agent, state: str) -> None:
        """It gets no further process: its mail bounces, and its descendants end.

        Of a root that is lost they end with the run, which a resume continues: those that were at
        work go on then, as after any other end.
        """
        if (
            member.path == ROOT_PATH
            and state == "crashed"
            and not self._run.request.lifetime.keep_open
        ):
            self.agents.run_life.apply(RunEvent.END_BEGAN)
            return
        self.parts.on_agent_lost(member.path)
        self.mail.bounce_all(member, reason=f"{member.path} is {state}")
        below = [one for one in self.team.subtree(member.path) if one is not member]
        if below:
            self._nursery.start_soon(self.actions.end_members, below)
        if not member.plan.reports:
            self.team.forget(member)

    def _on_start_failed(self, agent: Agent, why: str) -> None:
        if agent.closed:
            return  # its end is written
        outcome = AgentEnded(agent_id=agent.plan.agent_id, state="crashed", message=why)
        agent.end_work(outcome)
        self._run.note(outcome, agent=agent.path)
        self._report_end(agent, outcome, self.team.apply(agent, AgentEvent.WORK_ENDED))
        self._give_up(agent, "crashed")


async def run_team_service(
    running: RunContext,
    starts: StartServices,
    parts: RunParts,
    hooks: AgentHooks = AgentHooks(),  # noqa: B008 — immutable
    task_status: trio.TaskStatus[TeamService] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until cancelled; the started value is the TeamService."""
    async with trio.open_nursery() as nursery:
        service = TeamService(running, nursery, starts, parts, hooks)
        task_status.started(service)
        try:
            await trio.sleep_forever()
        finally:
            service.mail.close()
