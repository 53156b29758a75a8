"""Wake-ups of a live run: made, fired once, taken back; all of it journaled before it is shown.

An agent that waits has no process, and a run whose agents all wait has only its supervisor and its
gateway. A wake-up fires as mail that begins a turn. Its record and its mail are queued for the
journal together, in this order: whenever the supervisor is killed, at most the mail of the last
one is missing, and a resume sends that.
"""

from collections.abc import Callable

import trio

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.parts.wakeups.wakeup_messages import (
    CancelWakeUps,
    TakeBackWakeUp,
    WakeCause,
    WakeMe,
    WakeUp,
    WakeUpEnd,
    WakeUpEnded,
    WakeUpFired,
    WakeUpKept,
    WakeUpMade,
    WakeUpTakenBack,
)
from swarm.mailbox.protocol.control import Done, Refused
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import MailPosted

from ....agents.agent_record import Agent
from ....agents.child_plan import AgentRequestError
from ....journal.journal_reader import read_records
from ....part_access.part_host import PartHost, PartTeam
from ..wakeup_book import WakeUpBook, moment_of
from ..wakeup_rules import clock_text, decide_due, one_line, written

_LOOK_S = 60.0  # the wall clock may jump, and a machine that sleeps stops the other one
_BARRED = "a person has switched wake-ups off in this run: end your work, and say what is left"
_NOT_ALLOWED = "wake_me is for the root, and for roles whose `tools` name it"


OnOver = Callable[[WakeUp, WakeUpEnd], None]


class WakeUps:
    """One per run. Its clock runs in the nursery from the first wake-up on."""

    def __init__(
        self, host: PartHost, team: PartTeam, book: WakeUpBook, nursery: trio.Nursery
    ) -> None:
        self._host = host
        self._team = team
        self._book = book
        self._nursery = nursery
        self._changed = trio.Event()
        self._is_clock_running = False
        self._on_over: dict[int, OnOver] = {}  # by number: who is told that it is over
        self._repeats_mail = False  # a mail may have been lost, and is not sent again yet

    # --- what the run asks -----------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """False while a run that would end stays for its wake-ups."""
        return not self._holds_run

    @property
    def _holds_run(self) -> bool:
        if self._host.request.lifetime.keep_open or self._team.manager.run_life.is_ending:
            return False
        if self._repeats_mail:
            return True
        members = self._host.agents.members
        agents = {one.agent for one in self._book.pending.values()} - {""}  # they are at work
        return any((found := members.get(path)) is None or not found.closed for path in agents)

    def restore(self) -> None:
        """The run is resumed: what was due meanwhile fires, and a mail that was lost is sent."""
        if self._book.last_fired is not None:
            self._repeats_mail = True
            self._nursery.start_soon(self._repeat_lost_mail, *self._book.last_fired)
        for one in tuple(self._book.pending.values()):
            if one.due_unix_s is None or one.cause == "limit":  # who waits makes another
                self._end(one, "lost")
        self._run_clock()

    def on_work_ended(self) -> None:
        """If all agents wait now, the root's process ends, too."""
        root = self._host.agents.members.get(ROOT_PATH)
        if root is not None and self._holds_run and self._host.agents.is_idle:
            self._nursery.start_soon(self._team.lifecycle.end_resting, root)

    def on_agent_lost(self, path: str) -> None:
        """It is gone for good: nobody is to be woken."""
        for one in self._book.of_agent(path):
            self._end(one, "agent_gone")

    def cut_off(self) -> None:
        """The run ends: what is pending waits for a resume."""
        if self._book.pending and not self._host.request.lifetime.keep_open:
            self._team.manager.run_life.note_cut_off()

    # --- what agents and people ask --------------------------------------------------------------

    async def answer(
        self, asker: Agent, request: WakeMe | TakeBackWakeUp
    ) -> WakeUpKept | WakeUpTakenBack:
        """Journaled on return. Raises AgentRequestError."""
        if isinstance(request, TakeBackWakeUp):
            return self._take_back(asker, request.number)
        if not may_wake(asker):
            raise AgentRequestError(_NOT_ALLOWED)
        if self._book.is_barred:
            raise AgentRequestError(_BARRED)
        now = self._host.entropy.unix_s()
        mine, made = self._book.of_agent(asker.path), self._book.made.get(asker.path, 0)
        due = decide_due(request, now_unix_s=now, pending=len(mine), made=made)
        kept = self.make(asker.path, "clock", one_line(request.why), due_unix_s=due)
        await self._host.journal.flush()
        return WakeUpKept(number=kept.number, at=written(due), in_s=due - now)

    def make(
        self,
        agent: str,
        cause: WakeCause,
        why: str,
        *,
        due_unix_s: float | None = None,
        about: str = "",
        on_over: OnOver | None = None,
    ) -> WakeUp:
        """A new wake-up; `on_over` is called when it is over. Never waits."""
        made = WakeUp(
            number=self._book.last_number + 1,
            agent=agent,
            cause=cause,
            made_unix_s=self._host.entropy.unix_s(),
            why=why,
            due_unix_s=due_unix_s,
            about=about,
        )
        if on_over is not None:
            self._on_over[made.number] = on_over
        self._note(agent, WakeUpMade(wake_up=made))
        self._run_clock()
        return made

    def control(self, request: CancelWakeUps) -> Done | Refused:
        """A person takes back one, or all."""
        if request.number == 0:
            taken = list(self._book.pending.values())
        else:
            taken = [one for one in (self._book.pending.get(request.number),) if one is not None]
        if not (taken or request.number == 0):
            numbers = ", ".join(map(str, self._book.pending)) or "none"
            what = f"there is no wake-up {request.number} that waits"
            return Refused(message=f"{what}; those that do: {numbers}")
        for one in taken:
            self._end(one, "person")
        if request.number:
            return Done(message=f"wake-up {request.number} is taken back")
        self._note("", WakeUpEnded(number=0, reason="person"))
        return Done(
            message=f"{len(taken)} wake-ups are taken back; agents of this run get no others"
        )

    def _take_back(self, asker: Agent, number: int) -> WakeUpTakenBack:
        mine = {one.number: one for one in self._book.of_agent(asker.path)}
        if number not in mine:
            numbers = ", ".join(map(str, mine)) or "none"
            raise AgentRequestError(
                f"you have no wake-up {number} that has not fired; yours are: {numbers}"
            )
        self._end(mine[number], "agent")
        return WakeUpTakenBack(number=number)

    # --- firing ----------------------------------------------------------------------------------

    def fire(self, wake_up: WakeUp, text: str, *, author: str, is_last: bool = True) -> None:
        """Journal it, and mail the agent this text, which begins a turn. Never waits."""
        reader = self._host.agents.find(wake_up.agent)
        if reader is None or reader.closed:
            self._end(wake_up, "agent_gone")
            return
        mail = self._team.mail.make_mail(author, reader.path, text, wakes=True)
        fired = WakeUpFired(number=wake_up.number, mail_id=mail.mail_id, text=text, is_last=is_last)
        self._note(reader.path, fired)
        self._team.mail.send(reader, mail)
        self._host.agents.notify_change()

    def fire_quietly(self, wake_up: WakeUp) -> None:
        """Journal it; who waits for it is told here, without a mail. Never waits."""
        self._note(wake_up.agent, WakeUpFired(number=wake_up.number))
        self._tell_over(wake_up, "fired")

    def of_cause(self, cause: WakeCause) -> list[WakeUp]:
        """The pending ones of this cause."""
        return [one for one in self._book.pending.values() if one.cause == cause]

    def _tell_over(self, wake_up: WakeUp, reason: WakeUpEnd) -> None:
        if (on_over := self._on_over.pop(wake_up.number, None)) is not None:
            on_over(wake_up, reason)

    def _end(self, wake_up: WakeUp, reason: WakeUpEnd) -> None:
        self._note(wake_up.agent, WakeUpEnded(number=wake_up.number, reason=reason))
        self._tell_over(wake_up, reason)
        self._host.agents.notify_change()  # the run may be over now

    def _note(self, agent: str, body: WakeUpMade | WakeUpFired | WakeUpEnded) -> None:
        self._book.take(agent, body)
        self._host.note(body, agent=agent)
        self._changed.set()

    async def _repeat_lost_mail(self, path: str, fired: WakeUpFired) -> None:
        """Send the mail of the last one that fired, unless the journal has it."""
        reader = await self._wait_for_reader(path) if fired.mail_id else None
        if reader is not None and not self._is_posted(reader, fired.mail_id):
            self._team.mail.send(
                reader,
                Mail(
                    mail_id=fired.mail_id,
                    author="clock",
                    recipient=reader.path,
                    content=fired.text,
                    trigger_turn=True,
                ),
            )
        self._repeats_mail = False
        self._host.agents.notify_change()

    def _is_posted(self, reader: Agent, mail_id: str) -> bool:
        records = read_records(self._host.paths, file=reader.plan.agent_id)
        posted = (one.body.mail for one in records if isinstance(one.body, MailPosted))
        return any(mail.mail_id == mail_id for mail in posted)

    async def _wait_for_reader(self, path: str) -> Agent | None:
        """The agent; the root has no process until it is restarted. None: the run ends."""
        while (found := self._host.agents.find(path)) is None or not found.has_started:
            if self._team.manager.run_life.is_ending:
                return None
            await self._host.agents.wait_change()
        return found

    # --- the clock -------------------------------------------------------------------------------

    def _run_clock(self) -> None:
        if not self._is_clock_running and self._book.next_due() is not None:
            self._is_clock_running = True
            self._nursery.start_soon(self._clock)

    async def _clock(self) -> None:
        while (following := self._book.next_due()) is not None:
            left_s = (moment_of(following) or 0.0) - self._host.entropy.unix_s()
            if left_s <= 0:
                await self._on_time(following)
                continue
            self._changed = trio.Event()
            with trio.move_on_after(min(left_s, _LOOK_S)):
                await self._changed.wait()
        self._is_clock_running = False

    async def _on_time(self, wake_up: WakeUp) -> None:
        """It is due, or its time is over."""
        if wake_up.agent and await self._wait_for_reader(wake_up.agent) is None:
            await trio.sleep_forever()  # the run ends: a resume fires it
        if wake_up.number not in self._book.pending:
            return  # it was taken back meanwhile
        if self._team.manager.run_life.is_ending:
            await trio.sleep_forever()
        if wake_up.due_unix_s is None:
            self._end(wake_up, "expired")
            return
        if wake_up.cause == "limit":
            self.fire_quietly(wake_up)
            return
        text = clock_text(wake_up, self._host.entropy.unix_s())
        self.fire(wake_up, text, author="clock")


def may_wake(agent: Agent) -> bool:
    """True for the root, and for a role that names the tool."""
    tools = agent.plan.role.tools
    named = "wake_me" in (tools.only or ())
    return tools.allows("wake_me") and (agent.plan.depth == 0 or named)
