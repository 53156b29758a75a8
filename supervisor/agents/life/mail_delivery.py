"""Mail between agents: journaled, then delivered in order, or returned as dead.

No mail is delivered before it is written. Mail belongs to one agent id: a new agent with an old
name never sees it. An agent without a process gets it in its next process.
"""

from collections.abc import Callable
from typing import Literal

import msgspec
import trio

from swarm.mailbox.base.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.protocol.ops import Deliver, Mail
from swarm.mailbox.protocol.records import AgentEnded, MailHandled, MailPosted, Record

from ...context.run_context import RunContext
from ...journal.journal_reader import read_records
from ...journal.replay import AgentPast, RunPast
from ...runs.paths import RunPaths
from ..agent_phases import AgentEvent, Phase
from ..agent_record import Agent
from ..end_states import GOOD_ENDS

_DELIVERY_TIMEOUT_S = 2.0
_PREVIEW_CHARS = 500
_LAST_RECORDS = 256  # more than one step writes
MAX_UNREAD = 1_000  # unread mail per reader; more is refused
_SILENT_ENDS = frozenset({"interrupted"})  # somebody requested this end, so the parent is not woken

CHANGE_NOT_KNOWN = (
    "(It worked in a copy of the project: `list_changes` says what it changed there.)"
)
MailKind = Literal["new_task", "message", "followup", "final_answer"]


def make_mail(
    author: str,
    reader: str,
    content: str,
    *,
    kind: MailKind = "message",
    wakes: bool = False,
    entropy: EntropySources = SYSTEM_ENTROPY,
) -> Mail:
    """A mail with a new id."""
    return Mail(
        mail_id=entropy.new_id(),
        author=author,
        recipient=reader,
        content=content,
        kind=kind,
        trigger_turn=wakes,
    )


def make_report(
    member: Agent, outcome: AgentEnded, entropy: EntropySources = SYSTEM_ENTROPY
) -> Mail | None:
    """The report to a parent that its child's work has ended; None if nobody gets one."""
    parent = member.plan.parent
    if parent is None or not member.plan.reports or member.closed:
        return None
    text = outcome.message
    if outcome.state not in GOOD_ENDS:
        text = f"({outcome.state}) {text}".strip()
    text = text or "(no answer)"
    plan = member.plan
    if plan.limits.isolation == "copy" and (member.change_note or not plan.only_looks):
        text = f"{text}\n\n{member.change_note or CHANGE_NOT_KNOWN}"
    return make_mail(
        member.path,
        parent,
        text,
        kind="final_answer",
        wakes=outcome.state not in _SILENT_ENDS,
        entropy=entropy,
    )


class MailDelivery:
    """Delivers mail. `wake` is called for a reader without a process that the mail shall wake."""

    def __init__(
        self,
        running: RunContext,
        nursery: trio.Nursery,
        wake: Callable[[Agent], None],
    ) -> None:
        self._run, self._team, self._nursery, self._wake = running, running.agents, nursery, wake
        self._delivering: dict[str, trio.Event] = {}
        self._is_closed = False

    def make_mail(
        self,
        author: str,
        reader: str,
        content: str,
        *,
        kind: MailKind = "message",
        wakes: bool = False,
    ) -> Mail:
        """A mail that is not sent yet."""
        entropy = self._run.entropy
        return make_mail(author, reader, content, kind=kind, wakes=wakes, entropy=entropy)

    def send(self, reader: Agent, mail: Mail, written: Callable[[], None] = lambda: None) -> None:
        """Journal a mail, then deliver it; mail to a closed reader is dead at once. Never waits.

        `written` is called when the journal has it.
        """
        if reader.closed:
            self._journal(reader, mail, written)
            self.mark_dead(reader, mail, reason=f"{reader.path} was ended for good")
            return
        if mail.kind in {"new_task", "followup"}:
            reader.note_task(preview(mail.content))
        self._team.add_mail(reader, mail)
        if mail.trigger_turn:
            self._team.apply(reader, AgentEvent.WAKING_MAIL)

        def carry() -> None:
            self._deliver(reader, mail)
            written()

        self._journal(reader, mail, carry)

    async def send_and_wait_written(self, reader: Agent, mail: Mail) -> None:
        """Like `send`; return once the mail is written."""
        written = trio.Event()
        self.send(reader, mail, written.set)
        await written.wait()

    def _journal(self, reader: Agent, mail: Mail, then: Callable[[], None]) -> None:
        def written(record: Record) -> None:
            self._run.broadcast.publish_record(record)
            reader.unwritten_mail.discard(mail.mail_id)
            then()

        reader.unwritten_mail.add(mail.mail_id)
        self._run.journal.write(
            MailPosted(mail=mail), agent=reader.path, file=reader.plan.agent_id, then=written
        )

    def mark_dead(self, reader: Agent, mail: Mail, *, reason: str) -> None:
        """Journal that it can never be delivered."""
        self._run.note(
            MailHandled(mail_id=mail.mail_id, dead=True, reason=reason),
            agent=reader.path,
            file=reader.plan.agent_id,
        )

    def mark_answers_read(self, reader: Agent, authors: frozenset[str]) -> None:
        """Mark the answers of these agents as read: a wait's output contains them whole.

        Else the mail, arriving a moment later, would start another turn about the same answer.
        """
        for mail in tuple(reader.unread_mail.values()):
            if mail.kind == "final_answer" and mail.author in authors:
                del reader.unread_mail[mail.mail_id]
                self._run.note(
                    MailHandled(mail_id=mail.mail_id, reason="wait_agent brought this answer"),
                    agent=reader.path,
                    file=reader.plan.agent_id,
                )
        self._team.forget_read_mail(reader)

    def bounce_all(self, reader: Agent, *, reason: str) -> None:
        """The reader is gone: mark its mail as dead and notify the authors."""
        for mail in self._team.drop_mail(reader):
            self.mark_dead(reader, mail, reason=reason)
            self.notify_author(mail, reason=reason)

    def notify_author(self, mail: Mail, *, reason: str) -> None:
        """Notify a dead mail's author; for a first task, the spawn call reports the failure."""
        author = self._team.find(mail.author)
        if author is None or author.closed or mail.kind not in {"message", "followup"}:
            return
        intro = f"Your message to {mail.recipient} was not read: {reason}. It said: "
        self.send(
            author, self.make_mail(mail.recipient, author.path, intro + preview(mail.content))
        )

    async def wait_delivered(self, reader: Agent) -> None:
        """Return once all mail sent to it so far is on its way, or after 2 s."""
        with trio.move_on_after(_DELIVERY_TIMEOUT_S):
            await self._run.journal.flush()
            if (carried := self._delivering.get(reader.path)) is not None:
                await carried.wait()

    def close(self) -> None:
        """The run has ended: what is still written waits for a resume."""
        self._is_closed = True

    # --- delivery ------------------------------------------------------------------------------

    def _deliver(self, reader: Agent, mail: Mail) -> None:
        if self._is_closed or reader.closed or mail.mail_id not in reader.unread_mail:
            return  # it is dead, or a new process already got it
        if reader.path in self._delivering:
            reader.outbox.append(mail)
        elif not self._try_deliver(reader, mail):
            reader.outbox.append(mail)
            self._delivering[reader.path] = trio.Event()
            self._nursery.start_soon(self._deliver_outbox, reader)

    async def _deliver_outbox(self, reader: Agent) -> None:
        """Deliver the outbox; one task per reader keeps its mail in order."""
        try:
            while reader.outbox:
                await self._deliver_one(reader, reader.outbox.popleft())
        finally:
            self._delivering.pop(reader.path).set()

    def _try_deliver(self, reader: Agent, mail: Mail) -> bool:
        """True if this mail needs nothing more; False: the socket's queue is full."""
        receiver = self._receiving_agent(reader, mail)
        try:
            return receiver is None or self._run.send_nowait(receiver, Deliver(mail=mail))
        except PeerGone:
            return True  # its next process gets all that was not read

    def _receiving_agent(self, reader: Agent, mail: Mail) -> Agent | None:
        """The agent that takes its mail now; None: its next process gets all unread mail."""
        if not reader.is_live:
            if mail.trigger_turn and reader.phase is not Phase.SUSPENDED:
                self._wake(reader)
            return None
        process = reader.process
        if not process.hello.is_set() or reader.wanted_end or process.suspending:
            return None
        return reader if process.is_redelivered else None  # first, it gets what its last one left

    async def _deliver_one(self, reader: Agent, mail: Mail) -> None:
        receiver = self._receiving_agent(reader, mail)
        if receiver is None:
            return
        try:
            await self._run.send(receiver, Deliver(mail=mail))
        except PeerGone:
            return  # its next process gets all that was not read


async def deliver_unread_mail(running: RunContext, agent: Agent, *, joining: bool = False) -> None:
    """Deliver to a new process the unread mail that is journaled; the rest once it is written.

    Args:
        joining: Another input starts the turn that the mail joins, so the mail starts none: a
            second turn would answer the same work twice. An agent drops mail that it gets again.
    """
    for mail in tuple(agent.unread_mail.values()):
        if mail.mail_id in agent.unwritten_mail:
            continue
        sent = msgspec.structs.replace(mail, trigger_turn=False) if joining else mail
        try:
            await running.send(agent, Deliver(mail=sent))
        except PeerGone:
            return  # its next process gets them


def preview(text: str) -> str:
    """The first 500 characters of a task, for lists."""
    return text if len(text) <= _PREVIEW_CHARS else text[: _PREVIEW_CHARS - 1] + "…"


def report_to_parent(
    running: RunContext, delivery: MailDelivery, agent: Agent, outcome: AgentEnded
) -> None:
    """Journal and deliver the mail that reports how an agent's work ended.

    A parent is told of every end of a child. End and report are journaled in one step, so a resume
    looks for a lost report only behind the last records (`unreported_ends`).
    """
    report = make_report(agent, outcome, running.entropy)
    parent = running.agents.members.get(agent.plan.parent or "")
    if outcome.cut_off:
        return  # a resume continues it
    if report is not None and not running.request.team.wake_parents:
        report = msgspec.structs.replace(report, trigger_turn=False)
    if report is not None and parent is not None and not parent.closed:
        delivery.send(parent, report)


def unreported_ends(places: RunPaths, past: RunPast) -> list[str]:
    """Paths of agents that ended just before the cut and whose parent got no report."""
    return [
        path
        for path, agent in past.agents.items()
        if agent.ended is not None
        and not agent.is_unfinished
        and agent.ended_seq + _LAST_RECORDS >= past.last_seq
        and not _was_reported(places, past, agent)
    ]


def _was_reported(places: RunPaths, past: RunPast, agent: AgentPast) -> bool:
    parent = past.agents.get(agent.spawned.parent or "")
    if parent is None:
        return True  # there is no parent to tell
    return any(
        isinstance(record.body, MailPosted)
        and record.seq > agent.ended_seq
        and record.body.mail.kind == "final_answer"
        and record.body.mail.author == agent.spawned.path
        for record in read_records(places, file=parent.spawned.agent_id)
    )
