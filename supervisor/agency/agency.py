"""The agency: agents' requests come in, replies go out; what becomes of agents is told onward.

Rule guarded: every request ends in one reply, a refusal that says why, or with the process that
asked. Nobody acts upon an agent that is not below him.
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
    Errand,
    FollowUp,
    HaltAgent,
    InLine,
    ListAgents,
    ReportJobResult,
    RequestRefused,
    Review,
    SendMail,
    Spawn,
    SpawnOnCsv,
    WaitFor,
)

from ..agents import AgentPlan, LiveAgent, Spending
from ..control import Control
from ..journal.replay import RunPast
from ..running import Running
from .births import Births
from .gate import SpawnGate
from .inherit import NotPossible
from .jobs import Jobs
from .jobs_taken import JobsTaken
from .letters import Post
from .line import LineWarden
from .lives import ANSWERED_LATER, Lives
from .member import RESTING, Member
from .reopened import is_reopened, reopen_cut_off
from .reports import cut_off_reports, tell_parent
from .restore import restore_team
from .shelf import Shelf
from .slack import Slack
from .team import Team
from .unborn import bury_unborn
from .verbs import Verbs
from .waiting_calls import WaitingCalls
from .words import Words

MOST_OPEN = 64  # requests of one process at a time
_CRASH_STATES = frozenset({"crashed", "killed"})
_BOUNDS = frozenset({"budget", "deadline"})  # a resume may raise them


class Agency:
    """One a run, made by `open_agency`. Watches control, and serves what agents ask."""

    def __init__(self, running: Running, control: Control, nursery: trio.Nursery) -> None:
        self._run, self._control, self._nursery = running, control, nursery
        registry, self.shelf = running.registry, Shelf(running.places.folder)
        registry.look_also(self.shelf.owner)
        self.team = Team(self.shelf, adopt=registry.adopt_back, release=registry.hand_over)
        self.lives = Lives(running, control, self.team, nursery, self._asked)
        self.lives.on_failed = self._not_revived
        self.post = Post(running, self.team, nursery, self._wake)
        self._open: dict[str, dict[int, tuple[AnyRequest, trio.CancelScope]]] = {}
        slack = Slack(running, control, self.lives, self._asked)
        self._warden = LineWarden(
            waiting=slack.in_line, live=slack.live, is_blocked=slack.is_blocked,
            relieve=slack.relieve,
        )  # fmt: skip
        self.births = self._births = Births(running, control, self.team, self.post, self._warden)
        self._births.provider = lambda: running.request.provider
        self.gate = SpawnGate(
            most=running.request.max_spawns, is_there=lambda path: path in self.team.members
        )
        self.verbs = Verbs(running, control, self.team, self.post, self.lives)
        self._waits = WaitingCalls(self.team, self.post, self.lives)
        self._jobs = Jobs(running, control, self.team, self._births, nursery)
        self._taken = JobsTaken(running, self.team, self.post, self._jobs, nursery)
        self._words = Words(running, control, self.team, self._wake)
        control.watcher, control.is_written = self, self.post.is_written
        nursery.start_soon(self._warden.mind)

    # --- the whole tree ------------------------------------------------------------------------

    async def wait_over(self) -> AgentEnded:
        """Return when the run's work is done: how the root's ended."""
        return await self.team.wait_over(lambda: self._taken.idle and self._words.idle)

    def plan_of(self, path: str) -> AgentPlan | None:
        """Who has this path, whether it has a process now or not."""
        member = self.team.members.get(path)
        return None if member is None else member.plan

    def restore(self, past: RunPast, root: AgentPlan) -> None:
        """A resumed run: its team is there again, and those who had not finished go on.

        The caller starts the root; letters that come before its Hello wait for it.
        """
        top = self.team.enlist(root, state=RESTING)  # what its children come to is told to it
        top.beginning = True  # by the one who restores: no letter starts it
        known = {one.spawned.agent_id for one in past.agents.values()} | self._taken.restore()
        for one in restore_team(past, self._births.roles, root):
            is_unfinished = one.past.is_unfinished
            member = self.team.enlist(one.plan, state=one.state)
            member.epoch = one.past.spawned.epoch
            member.outcome = None if is_unfinished else one.past.ended
            member.spending, member.closed = Spending(one.past.usd), one.state == "killed"
            self._run.registry.adopt_path(member.path, agent_id=one.plan.agent_id)
            self.gate.started += 1
            if is_unfinished:
                reopen_cut_off(self._run, one.past)
                self._wake(member)
            elif not member.closed and is_reopened(self._run.places, one.past):
                self._wake(member)
        for child in cut_off_reports(self._run.places, past):
            if (outcome := past.agents[child].ended) and (of := self.team.members.get(child)):
                tell_parent(self._run, self.team, self.post, (of, outcome))
        bury_unborn(self._run, self.post, known)

    async def say(self, member: Member, words: UserInput) -> None:
        """A person speaks to an agent, whether it has a process now or not. Journaled on return.
        Raises NotPossible: nobody will hear it in this run."""
        await self._words.say(member, words)

    async def leave_letter(self, member: Member, text: str) -> None:
        """A person's words that wake nobody: read at the agent's next turn, if there is one."""
        await self.post.post_and_wait(member, self.post.write("person", member.path, text))

    def close(self) -> None:
        """The run ends: no wish is granted any more, nobody waits."""
        self._words.close()
        self._jobs.destine("later")
        self._taken.drop_all()
        for asked in tuple(self._open.values()):
            for _, scope in tuple(asked.values()):
                scope.cancel()
        self._run.room.dissolve("the run is ending; nothing new starts")

    async def kill(self, members: Sequence[Member]) -> None:
        """A person's `swarm kill` of a subtree: at once, for good; its parent is told."""
        top = members[0]
        was_active, parent = top.is_active, self.team.members.get(top.plan.parent or "")
        await self.verbs.end_members(members, grace_s=1.0)
        if was_active and parent is not None and not parent.closed and top.plan.reports:
            words = "(killed) a person ended it for good"
            wakes = self._run.request.wake_parents
            note = self.post.write(top.path, parent.path, words, kind="final_answer", wakes=wakes)
            self.post.post(parent, note)

    def interrupt_waiting(self) -> None:
        """Ctrl-C reaches also the turns that wait without a process, and jobs without a turn: a
        resume takes them up.
        """
        self._jobs.destine("later")
        self._taken.drop_all()
        for member in tuple(self.team.members.values()):
            self.interrupt_suspended(member)

    def interrupt_suspended(self, member: Member) -> bool:
        """Abort a turn that waits without a process; False if there is none."""
        if not self.lives.abort_suspended(member):
            return False
        self._cancel_open(member.path)
        return True

    # --- requests ------------------------------------------------------------------------------

    def serve(self, agent: LiveAgent, request_id: int, request: AnyRequest) -> None:
        """Serve one request beside the others. Never waits."""
        asked = self._open.setdefault(agent.path, {})
        member = self.team.members.get(agent.path)
        if len(asked) >= MOST_OPEN or request_id in asked or member is None:
            reply = RequestRefused(message="too many requests at once; wait for their answers")
            self._nursery.start_soon(self._reply, agent, request_id, reply)
            return
        scope = trio.CancelScope()
        asked[request_id] = request, scope
        self._nursery.start_soon(self._serve_one, agent, member, request_id)

    async def _serve_one(self, agent: LiveAgent, member: Member, request_id: int) -> None:
        asked = self._open[agent.path]
        request, scope = asked[request_id]
        epoch, reply = agent.epoch, None
        try:
            with scope:
                reply = await self._obey(agent, member, request_id, request)
        except NotPossible as error:
            reply = RequestRefused(message=str(error))
        finally:
            asked.pop(request_id, None)
            if not asked and self._open.get(agent.path) is asked:
                del self._open[agent.path]
        if reply is None:
            return
        waiting = member.suspended
        if waiting is not None and isinstance(request, ANSWERED_LATER[waiting.tool]):
            self._waits.resume(member, request, reply)
        elif agent.epoch == epoch:
            await self._reply(agent, request_id, reply)

    async def _obey(
        self, agent: LiveAgent, member: Member, request_id: int, request: AnyRequest
    ) -> AnyReply:
        if isinstance(request, Errand | Review):
            raise NotPossible("another room answers this")
        match request:
            case Spawn():
                place = self._place_teller(agent, member, request_id, request.task_name)
                roles, provider = self._births.roles, self._births.provider()
                self.gate.check(member.plan, request, roles, provider=provider)
                grant = partial(self._births.grant, member, request, place)
                return await self.gate.count(f"{member.path}/{request.task_name}", grant)
            case SendMail():
                return await self.verbs.send(member, request)
            case FollowUp():
                return await self.verbs.follow_up(member, request)
            case WaitFor():
                return await self._waits.wait(member, request)
            case ListAgents():
                return self.verbs.list_team(member, request)
            case HaltAgent():
                return await self.verbs.halt(member, request, self.interrupt_suspended)
            case CloseAgent():
                return await self.verbs.close(member, request)
            case SpawnOnCsv():
                return await self._taken.join(member, request)
            case ReportJobResult():
                return self._jobs.report(member, request)
            case _:
                assert_never(request)

    def _place_teller(
        self, agent: LiveAgent, member: Member, request_id: int, name: str
    ) -> Callable[[int], None]:
        path = f"{member.path}/{name}"

        def tell(place: int) -> None:
            self.lives.show_place(path, place)
            reply = InLine(place=place)
            self._nursery.start_soon(self._reply, agent, request_id, reply)

        return tell

    async def _reply(self, agent: LiveAgent, request_id: int, reply: AnyReply) -> None:
        try:
            await self._run.send(agent, Answer(request_id=request_id, reply=reply))
        except PeerGone:
            return  # it ended meanwhile; nobody waits

    def _asked(self, path: str) -> Iterator[AnyRequest]:
        return (request for request, _ in self._open.get(path, {}).values())

    def _cancel_open(self, path: str) -> None:
        for _, scope in tuple(self._open.get(path, {}).values()):
            scope.cancel()

    def _wake(self, member: Member) -> None:
        self.lives.wake(member)
        self._warden.stir()

    # --- what becomes of agents ----------------------------------------------------------------

    def born(self, agent: LiveAgent) -> None:
        member = self.team.members.get(agent.path)
        if member is None:
            member = self.team.enlist(agent.plan, state=RESTING)
        if agent.path == ROOT_PATH and not member.epoch:
            member.beginning = False
        member.life, member.epoch = agent, agent.epoch
        for mail in agent.letters.values():
            if mail.mail_id not in member.letters:
                self.team.add_letter(member, mail)
        agent.letters = member.letters
        member.deaths, member.spending = agent.deaths, agent.spending
        agent.unheard |= member.unheard
        member.unheard.clear()
        agent.brood = partial(self.team.brood, agent.path)
        if (parent := self.team.members.get(member.plan.parent or "")) and member.plan.reports:
            parent.children[member.path] = member.plan.nickname
        if member.state == "queued":
            self.team.set_state(member, "starting")
        self.team.ring()

    def turned(self, agent: LiveAgent) -> None:
        self._cancel_open(agent.path)  # nobody waits any more for what the turn before asked
        if (member := self._of(agent)) is not None:
            self.team.set_state(member, "running")

    def spoken_to(self, agent: LiveAgent) -> None:
        if (member := self._of(agent)) is not None:
            self.team.set_state(member, "running")

    def read(self, agent: LiveAgent, mail: Mail) -> None:
        if (member := self._of(agent)) is None:
            return
        child = self.team.members.get(mail.author)
        if mail.kind == "final_answer" and child is not None:
            self.team.tell(member, child)
        self.team.settle_letters(member)

    def concluded(self, agent: LiveAgent) -> None:
        member, outcome = self._of(agent), agent.outcome
        later = outcome is not None and (outcome.cut_off or outcome.state in _BOUNDS)
        if (
            agent.turn is None and not agent.ending
        ):  # else what is open is the wish of its next turn
            self._jobs.destine("later" if later else "cancelled", asker=agent.path)
            self._cancel_open(agent.path)  # as of an interrupted turn: its wishes are withdrawn
        if member is None or outcome is None:
            return
        member.outcome, member.last_turn_end = outcome, agent.last_turn_end
        self._conclude(member, outcome)
        if member.plan.parent is not None and agent.retires and not agent.gone.is_set():
            self._nursery.start_soon(self.lives.retire, agent)

    def died(self, agent: LiveAgent) -> None:
        if agent.suspending:
            return
        if agent.wanted_end is None and not agent.orderly:
            self._jobs.destine("now", asker=agent.path)  # it will live again
        self._cancel_open(agent.path)

    def gone(self, agent: LiveAgent) -> None:
        if (member := self._of(agent)) is None or agent.suspending:
            return
        member.life = None
        state = agent.outcome.state if agent.outcome is not None else "crashed"
        if agent.wanted_end == "killed":
            member.closed, state = True, "killed"
        if state in _CRASH_STATES or not member.plan.reports:
            self._lose(member, state)
        elif self.team.is_woken(member):
            self._wake(member)
        self.team.ring()

    def _of(self, agent: LiveAgent) -> Member | None:
        """The member of this very agent; an old one under the same path is nobody."""
        member = self.team.members.get(agent.path)
        same = member is not None and member.plan.agent_id == agent.plan.agent_id
        return member if same else None

    def _conclude(self, member: Member, outcome: AgentEnded) -> None:
        member.ends += 1
        tell_parent(self._run, self.team, self.post, (member, outcome))
        self.team.set_state(member, outcome.state)

    def _lose(self, member: Member, state: str) -> None:
        """It will have no process again by itself: its letters come back, its children end."""
        self._taken.drop(member.path)
        self.post.bounce_all(member, reason=f"{member.path} is {state}")
        below = [one for one in self.team.subtree(member.path) if one is not member]
        if below:
            self._nursery.start_soon(self.verbs.end_members, below)
        if not member.plan.reports:
            self.team.forget(member)

    def _not_revived(self, member: Member, why: str) -> None:
        member.life = None
        outcome = AgentEnded(agent_id=member.plan.agent_id, state="crashed", message=why)
        member.outcome = outcome
        self._run.note(outcome, agent=member.path)
        self._conclude(member, outcome)
        self._lose(member, "crashed")


async def run_agency(
    running: Running,
    control: Control,
    task_status: trio.TaskStatus[Agency] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Live until cancelled; the started value is the agency."""
    async with trio.open_nursery() as nursery:
        agency = Agency(running, control, nursery)
        task_status.started(agency)
        try:
            await trio.sleep_forever()
        finally:
            agency.post.is_over = True
            agency.shelf.close()
