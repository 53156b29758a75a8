"""Letters between agents: journaled, then handed over in order, or returned as dead.

Rule guarded: nothing is handed over before it is written, and a letter belongs to one agent id: a
new agent under an old name never sees it. An agent that has no process gets it in its next life.
"""

from collections.abc import Callable
from typing import Literal

import trio

from swarm.mailbox.chances import REAL, Chances
from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.ops import Deliver, Mail
from swarm.mailbox.protocol.records import AgentEnded, MailHandled, MailPosted, Record

from ..agents import LiveAgent
from ..end_states import GOOD_ENDS
from ..running import Running
from .member import Member
from .team import Team, preview

_CARRY_LIMIT_S = 2.0
MOST_UNREAD = 1_000  # letters of one reader; more are refused
_SILENT_ENDS = frozenset({"interrupted"})  # somebody wanted it so: no parent is woken

Kind = Literal["new_task", "message", "followup", "final_answer"]


def write_letter(
    author: str,
    reader: str,
    content: str,
    *,
    kind: Kind = "message",
    wakes: bool = False,
    chances: Chances = REAL,
) -> Mail:
    """A letter with an id of its own."""
    return Mail(
        mail_id=chances.new_id(),
        author=author,
        recipient=reader,
        content=content,
        kind=kind,
        trigger_turn=wakes,
    )


def report_of(member: Member, outcome: AgentEnded, chances: Chances = REAL) -> Mail | None:
    """What a parent is told when its child's work has come to an end; None for the root."""
    parent = member.plan.parent
    if parent is None or not member.plan.reports or member.closed:
        return None
    text = outcome.message
    if outcome.state not in GOOD_ENDS:
        text = f"({outcome.state}) {text}".strip()
    return write_letter(
        member.path,
        parent,
        text or "(no answer)",
        kind="final_answer",
        wakes=outcome.state not in _SILENT_ENDS,
        chances=chances,
    )


class Post:
    """Carries letters. `wake` is called for a reader without a process whom a letter wakes."""

    def __init__(
        self,
        running: Running,
        team: Team,
        nursery: trio.Nursery,
        wake: Callable[[Member], None],
    ) -> None:
        self._run, self._team, self._nursery, self._wake = running, team, nursery, wake
        self._carrying: dict[str, trio.Event] = {}
        self._unwritten: set[str] = set()
        self.is_over = False  # the run has ended: what is still written waits for a resume

    def write(
        self, author: str, reader: str, content: str, *, kind: Kind = "message", wakes: bool = False
    ) -> Mail:
        """A letter that is not posted yet."""
        chances = self._run.chances
        return write_letter(author, reader, content, kind=kind, wakes=wakes, chances=chances)

    def post(self, reader: Member, mail: Mail, written: Callable[[], None] = lambda: None) -> None:
        """Journal a letter, then carry it; a closed reader's is dead at once. Never waits.

        `written` is called when the journal has it.
        """
        if reader.closed:
            self._journal(reader, mail, written)
            self.bury(reader, mail, reason=f"{reader.path} was ended for good")
            return
        if mail.kind in {"new_task", "followup"}:
            reader.last_task = preview(mail.content)
        self._team.add_letter(reader, mail)
        if mail.trigger_turn and not reader.is_active:
            self._team.set_state(reader, "running" if reader.life is not None else "queued")

        def carry() -> None:
            self._carry(reader, mail)
            written()

        self._journal(reader, mail, carry)

    def is_written(self, mail: Mail) -> bool:
        """False while the journal does not have it: nobody may be given it yet."""
        return mail.mail_id not in self._unwritten

    async def post_and_wait(self, reader: Member, mail: Mail) -> None:
        """As `post`; return once the letter is written."""
        written = trio.Event()
        self.post(reader, mail, written.set)
        await written.wait()

    def _journal(self, reader: Member, mail: Mail, then: Callable[[], None]) -> None:
        def written(record: Record) -> None:
            self._run.showing.record(record)
            self._unwritten.discard(mail.mail_id)
            then()

        self._unwritten.add(mail.mail_id)
        self._run.journal.write(
            MailPosted(mail=mail), agent=reader.path, file=reader.plan.agent_id, then=written
        )

    def bury(self, reader: Member, mail: Mail, *, reason: str) -> None:
        """It can never be delivered: say so in the journal."""
        self._run.note(
            MailHandled(mail_id=mail.mail_id, dead=True, reason=reason),
            agent=reader.path,
            file=reader.plan.agent_id,
        )

    def take_answers(self, reader: Member, authors: frozenset[str]) -> None:
        """The output of a wait gives these agents' answers whole: their letters are read with it.

        Else the letter, coming a moment later, would start a turn of its own over the same words.
        """
        for mail in tuple(reader.letters.values()):
            if mail.kind == "final_answer" and mail.author in authors:
                del reader.letters[mail.mail_id]
                self._run.note(
                    MailHandled(mail_id=mail.mail_id, reason="wait_agent brought this answer"),
                    agent=reader.path,
                    file=reader.plan.agent_id,
                )
        self._team.settle_letters(reader)

    def bounce_all(self, reader: Member, *, reason: str) -> None:
        """The reader is gone: its letters are dead, and those who wrote them are told."""
        for mail in self._team.drop_letters(reader):
            self.bury(reader, mail, reason=reason)
            self.tell_author(mail, reason=reason)

    def tell_author(self, mail: Mail, *, reason: str) -> None:
        """Who wrote a dead letter hears of it; a first task's refusal is told by its call."""
        author = self._team.find(mail.author)
        if author is None or author.closed or mail.kind not in {"message", "followup"}:
            return
        words = f"Your message to {mail.recipient} was not read: {reason}. It said: "
        self.post(author, self.write(mail.recipient, author.path, words + preview(mail.content)))

    async def wait_carried(self, reader: Member) -> None:
        """Return once all that was posted to it so far is on its way; bounded."""
        with trio.move_on_after(_CARRY_LIMIT_S):
            await self._run.journal.settle()
            if (carried := self._carrying.get(reader.path)) is not None:
                await carried.wait()

    # --- carrying ------------------------------------------------------------------------------

    def _carry(self, reader: Member, mail: Mail) -> None:
        if self.is_over or reader.closed or mail.mail_id not in reader.letters:
            return  # it is dead, or was handed over at the beginning of a life
        if reader.path in self._carrying:
            reader.outbox.append(mail)
        elif not self._hand_over_now(reader, mail):
            reader.outbox.append(mail)
            self._carrying[reader.path] = trio.Event()
            self._nursery.start_soon(self._carry_all, reader)

    async def _carry_all(self, reader: Member) -> None:
        """One task a reader, so that its letters keep their order."""
        try:
            while reader.outbox:
                await self._hand_over(reader, reader.outbox.popleft())
        finally:
            self._carrying.pop(reader.path).set()

    def _hand_over_now(self, reader: Member, mail: Mail) -> bool:
        """True if nothing more has to be done for it; False: its mailbox is full."""
        life = self._awake(reader, mail)
        try:
            return life is None or self._run.send_nowait(life, Deliver(mail=mail))
        except PeerGone:
            return True  # its next life gets all that was not read

    def _awake(self, reader: Member, mail: Mail) -> LiveAgent | None:
        """The life that takes its letters now; None: its next one gets all that was not read."""
        life = reader.life
        if life is None and mail.trigger_turn:
            self._wake(reader)
        if life is None or not life.hello.is_set() or life.wanted_end or life.suspending:
            return None
        return life if life.caught_up else None  # what its last life left undone comes first

    async def _hand_over(self, reader: Member, mail: Mail) -> None:
        life = self._awake(reader, mail)
        if life is None:
            return
        try:
            await self._run.send(life, Deliver(mail=mail))
        except PeerGone:
            return  # its next life gets all that was not read
