"""Team service: serves agents' requests, and passes on what happens to agents.

Every request ends in one reply, which may be a refusal with a reason, or with the process that sent
it. An agent can only end or interrupt its descendants.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import assert_never

import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.ops import Answer, Mail, UserInput
from swarm.mailbox.protocol.records import AgentEnded
from swarm.mailbox.protocol.requests import (
    AnyReply,
    AnyRequest,
    CloseAgent,
    FollowUp,
    HaltAgent,
    ListAgents,
    NonTeamRequest,
    QueuedForSlot,
    ReportJobResult,
    RequestApproval,
    RequestRefused,
    SendMail,
    Spawn,
    SpawnOnCsv,
    WaitFor,
)

from ..agents.agent_manager import AgentManager
from ..agents.blocked_agents import BlockedAgents
from ..agents.child_plan import AgentRequestError
from ..agents.finished_agents import FinishedAgents
from ..agents.lifecycle import SUSPENDABLE_TOOLS, AgentLifecycle
from ..agents.live_agent import AgentPlan, LiveAgent, Spending
from ..agents.resume_continuation import continue_cut_off, has_work_after_end
from ..agents.resume_team import restore_team
from ..agents.resume_unstarted import close_unstarted
from ..agents.slot_deadlock import DeadlockDetector
from ..agents.spawn_limits import SpawnLimits
from ..agents.spawning import AgentSpawner
from ..agents.team_agent import IDLE, TeamAgent
from ..journal.replay import RunPast
from ..run_context import RunContext
from .agent_actions import AgentActions
from .detached_jobs import DetachedJobs
from .job_runner import JobRunner
from .mail_delivery import MailDelivery
from .parent_reports import report_to_parent, unreported_ends
from .person_input import PersonInput
from .team_members import TeamMembers
from .wait_calls import WaitCalls

MAX_OPEN_REQUESTS = 64  # per process at a time
_CRASH_STATES = frozenset({"crashed", "killed"})
_LIMIT_STATES = frozenset({"budget", "deadline"})  # a resume may raise these limits


class TeamService:
    """One per run, made by `run_team_service`. Observes agents and serves their requests."""

    def __init__(self, running: RunContext, control: AgentManager, nursery: trio.Nursery) -> None:
        self._run, self._agents, self._nursery = running, control, nursery
        registry, self.finished = running.registry, FinishedAgents(running.paths.folder)
        registry.set_owner_lookup(self.finished.owner_of)
        self.team = TeamMembers(
            self.finished, adopt=registry.set_owner, release=registry.forget_owner
        )
        self.lifecycle = AgentLifecycle(running, control, self.team, nursery, self._open_requests)
        self.lifecycle.on_start_failed = self._on_start_failed
        self.mail = MailDelivery(running, self.team, nursery, self._wake)
        self._open: dict[str, dict[int, tuple[AnyRequest, trio.CancelScope]]] = {}
        slack = BlockedAgents(running, control, self.lifecycle, self._open_requests)
        self._deadlock_detector = DeadlockDetector(
            waiting=slack.waiting_count, live=slack.slot_holders, is_blocked=slack.is_blocked,
            relieve=slack.free_slot,
        )  # fmt: skip
        self.spawner = self._spawner = AgentSpawner(
            running, control, self.team, self.mail, self._deadlock_detector
        )
        self._spawner.provider = lambda: running.request.provider
        self.spawn_limits = SpawnLimits(
            most=running.request.max_spawns, is_there=lambda path: path in self.team.members
        )
        self.actions = AgentActions(running, control, self.team, self.mail, self.lifecycle)
        self._wait_calls = WaitCalls(self.team, self.mail, self.lifecycle)
        self._jobs = JobRunner(running, control, self.team, self._spawner, nursery)
        self._detached_jobs = DetachedJobs(running, self.team, self.mail, self._jobs, nursery)
        self._person_input = PersonInput(running, control, self.team, self._wake)
        control.observer, control.is_mail_written = self, self.mail.is_written
        nursery.start_soon(self._deadlock_detector.run)

    async def wait_done(self) -> AgentEnded:
        """Return how the root's work ended, once the run's work is done."""
        return await self.team.wait_done(
            lambda: self._detached_jobs.is_idle and self._person_input.is_idle
        )

    def plan_of(self, path: str) -> AgentPlan | None:
        """The plan of the agent with this path, with or without a process."""
        member = self.team.members.get(path)
        return None if member is None else member.plan

    def restore(self, past: RunPast, root: AgentPlan) -> None:
        """Restore a resumed run's team; its unfinished agents continue.

        The caller starts the root; mail that comes before its Hello waits for it.
        """
        top = self.team.add(root, state=IDLE)  # so that its children can report to it
        top.is_starting = True  # the caller starts it: no mail does
        known = {
            one.spawned.agent_id for one in past.agents.values()
        } | self._detached_jobs.restore()
        for one in restore_team(past, self._spawner.roles, root):
            is_unfinished = one.past.is_unfinished
            member = self.team.add(one.plan, state=one.state)
            member.epoch = one.past.spawned.epoch
            member.outcome = None if is_unfinished else one.past.ended
            member.spending, member.closed = Spending(one.past.usd), one.state == "killed"
            self._run.registry.restore_path(member.path, agent_id=one.plan.agent_id)
            self.spawn_limits.started += 1
            if is_unfinished:
                continue_cut_off(self._run, one.past)
                self._wake(member)
            elif not member.closed and has_work_after_end(self._run.paths, one.past):
                self._wake(member)
        for child in unreported_ends(self._run.paths, past):
            if (outcome := past.agents[child].ended) and (of := self.team.members.get(child)):
                report_to_parent(self._run, self.team, self.mail, (of, outcome))
        close_unstarted(self._run, self.mail, known)

    async def send_input(self, member: TeamAgent, words: UserInput) -> None:
        """Send a person's input to an agent, with or without a process. Journaled on return.

        Raises AgentRequestError: no agent will read it in this run.
        """
        await self._person_input.send(member, words)

    async def leave_message(self, member: TeamAgent, text: str) -> None:
        """A person's message that starts no turn: the agent reads it at its next turn, if any."""
        await self.mail.send_and_wait_written(
            member, self.mail.make_mail("person", member.path, text)
        )

    def close(self) -> None:
        """The run ends: refuse new spawns, cancel all waiting requests."""
        self._person_input.close()
        self._jobs.set_fate("later")
        self._detached_jobs.cancel_all()
        for asked in tuple(self._open.values()):
            for _, scope in tuple(asked.values()):
                scope.cancel()
        self._run.slot_scheduler.close("the run is ending; nothing new starts")

    async def kill(self, members: Sequence[TeamAgent]) -> None:
        """A person's `swarm kill` of a subtree: at once, for good; its parent is told."""
        top = members[0]
        was_active, parent = top.is_active, self.team.members.get(top.plan.parent or "")
        await self.actions.end_members(members, grace_s=1.0)
        if was_active and parent is not None and not parent.closed and top.plan.reports:
            words = "(killed) a person ended it for good"
            wakes = self._run.request.wake_parents
            note = self.mail.make_mail(
                top.path, parent.path, words, kind="final_answer", wakes=wakes
            )
            self.mail.send(parent, note)

    def interrupt_waiting(self) -> None:
        """Apply Ctrl-C to suspended turns and to jobs without a turn; a resume continues them."""
        self._jobs.set_fate("later")
        self._detached_jobs.cancel_all()
        for member in tuple(self.team.members.values()):
            self.interrupt_suspended(member)

    def interrupt_suspended(self, member: TeamAgent) -> bool:
        """Abort a suspended turn; False if there is none."""
        if not self.lifecycle.abort_suspended(member):
            return False
        self._cancel_requests(member.path)
        return True

    def serve(self, agent: LiveAgent, request_id: int, request: AnyRequest) -> None:
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

    async def _serve_one(self, agent: LiveAgent, member: TeamAgent, request_id: int) -> None:
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
        if waiting is not None and isinstance(request, SUSPENDABLE_TOOLS[waiting.tool]):
            self._wait_calls.resume(member, request, reply)
        elif agent.epoch == epoch:
            await self._reply(agent, request_id, reply)

    async def _handle(
        self, agent: LiveAgent, member: TeamAgent, request_id: int, request: AnyRequest
    ) -> AnyReply:
        if isinstance(request, NonTeamRequest | RequestApproval):
            raise AgentRequestError("another room answers this")
        match request:
            case Spawn():
                place = self._position_sender(agent, member, request_id, request.task_name)
                roles, provider = self._spawner.roles, self._spawner.provider()
                self.spawn_limits.check(member.plan, request, roles, provider=provider)
                grant = partial(self._spawner.spawn_child, member, request, place)
                return await self.spawn_limits.count_spawn(
                    f"{member.path}/{request.task_name}", grant
                )
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
            case SpawnOnCsv():
                return await self._detached_jobs.join(member, request)
            case ReportJobResult():
                return self._jobs.report(member, request)
            case _:
                assert_never(request)

    def _position_sender(
        self, agent: LiveAgent, member: TeamAgent, request_id: int, name: str
    ) -> Callable[[int], None]:
        path = f"{member.path}/{name}"

        def tell(place: int) -> None:
            self.lifecycle.show_position(path, place)
            reply = QueuedForSlot(place=place)
            self._nursery.start_soon(self._reply, agent, request_id, reply)

        return tell

    async def _reply(self, agent: LiveAgent, request_id: int, reply: AnyReply) -> None:
        try:
            await self._run.send(agent, Answer(request_id=request_id, reply=reply))
        except PeerGone:
            return  # its process ended meanwhile; nobody waits

    def _open_requests(self, path: str) -> Iterator[AnyRequest]:
        return (request for request, _ in self._open.get(path, {}).values())

    def _cancel_requests(self, path: str) -> None:
        for _, scope in tuple(self._open.get(path, {}).values()):
            scope.cancel()

    def _wake(self, member: TeamAgent) -> None:
        self.lifecycle.wake(member)
        self._deadlock_detector.wake()

    def on_process_started(self, agent: LiveAgent) -> None:
        member = self.team.members.get(agent.path)
        if member is None:
            member = self.team.add(agent.plan, state=IDLE)
        if agent.path == ROOT_PATH and not member.epoch:
            member.is_starting = False
        member.live_agent, member.epoch = agent, agent.epoch
        for mail in agent.unread_mail.values():
            if mail.mail_id not in member.unread_mail:
                self.team.add_mail(member, mail)
        agent.unread_mail = member.unread_mail
        member.deaths, member.spending = agent.deaths, agent.spending
        agent.undelivered_inputs |= member.undelivered_inputs
        member.undelivered_inputs.clear()
        agent.list_children = partial(self.team.open_children, agent.path)
        if (parent := self.team.members.get(member.plan.parent or "")) and member.plan.reports:
            parent.children[member.path] = member.plan.nickname
        if member.state == "queued":
            self.team.set_state(member, "starting")
        self.team.notify_change()

    def on_turn_started(self, agent: LiveAgent) -> None:
        self._cancel_requests(agent.path)  # nobody waits for what the previous turn requested
        if (member := self._member_of(agent)) is not None:
            self.team.set_state(member, "running")

    def on_input(self, agent: LiveAgent) -> None:
        if (member := self._member_of(agent)) is not None:
            self.team.set_state(member, "running")

    def on_mail_read(self, agent: LiveAgent, mail: Mail) -> None:
        if (member := self._member_of(agent)) is None:
            return
        child = self.team.members.get(mail.author)
        if mail.kind == "final_answer" and child is not None:
            self.team.mark_reported(member, child)
        self.team.forget_read_mail(member)

    def on_work_ended(self, agent: LiveAgent) -> None:
        member, outcome = self._member_of(agent), agent.outcome
        later = outcome is not None and (outcome.cut_off or outcome.state in _LIMIT_STATES)
        # With a next turn, the open requests belong to that turn.
        if agent.turn is None and not agent.turn_ends_pending:
            self._jobs.set_fate("later" if later else "cancelled", asker=agent.path)
            self._cancel_requests(agent.path)  # as if its turn were interrupted
        if member is None or outcome is None:
            return
        member.outcome, member.last_turn_end = outcome, agent.last_turn_end
        self._end_work(member, outcome)
        if member.plan.parent is not None and agent.ends_with_work and not agent.gone.is_set():
            self._nursery.start_soon(self.lifecycle.retire, agent)

    def on_process_ended(self, agent: LiveAgent) -> None:
        if agent.suspending:
            return
        if agent.wanted_end is None and not agent.said_goodbye:
            self._jobs.set_fate("now", asker=agent.path)  # it will be restarted
        self._cancel_requests(agent.path)

    def on_gone(self, agent: LiveAgent) -> None:
        if (member := self._member_of(agent)) is None or agent.suspending:
            return
        member.live_agent = None
        state = agent.outcome.state if agent.outcome is not None else "crashed"
        if agent.wanted_end == "killed":
            member.closed, state = True, "killed"
        if state in _CRASH_STATES or not member.plan.reports:
            self._give_up(member, state)
        elif self.team.has_waking_mail(member):
            self._wake(member)
        self.team.notify_change()

    def _member_of(self, agent: LiveAgent) -> TeamAgent | None:
        """The member for this agent; None if its path now belongs to another agent id."""
        member = self.team.members.get(agent.path)
        same = member is not None and member.plan.agent_id == agent.plan.agent_id
        return member if same else None

    def _end_work(self, member: TeamAgent, outcome: AgentEnded) -> None:
        member.end_count += 1
        report_to_parent(self._run, self.team, self.mail, (member, outcome))
        self.team.set_state(member, outcome.state)

    def _give_up(self, member: TeamAgent, state: str) -> None:
        """It gets no further process: its mail bounces, and its descendants end."""
        self._detached_jobs.cancel_jobs_of(member.path)
        self.mail.bounce_all(member, reason=f"{member.path} is {state}")
        below = [one for one in self.team.subtree(member.path) if one is not member]
        if below:
            self._nursery.start_soon(self.actions.end_members, below)
        if not member.plan.reports:
            self.team.forget(member)

    def _on_start_failed(self, member: TeamAgent, why: str) -> None:
        member.live_agent = None
        outcome = AgentEnded(agent_id=member.plan.agent_id, state="crashed", message=why)
        member.outcome = outcome
        self._run.note(outcome, agent=member.path)
        self._end_work(member, outcome)
        self._give_up(member, "crashed")


async def run_team_service(
    running: RunContext,
    control: AgentManager,
    task_status: trio.TaskStatus[TeamService] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until cancelled; the started value is the TeamService."""
    async with trio.open_nursery() as nursery:
        agency = TeamService(running, control, nursery)
        task_status.started(agency)
        try:
            await trio.sleep_forever()
        finally:
            agency.mail.is_closed = True
            agency.finished.close()
