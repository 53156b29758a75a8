"""The notices of a live run: what agents ask to tell, questions that wait, and the run's end.

At most once: a notice is journaled before anything of it is sent, and nothing that was journaled is
sent again, also after a crash. A question is told only if it still waits for a person after a
while: what a rule, a hook or the guardian answers is never told.
"""

from collections.abc import Callable, Coroutine
from functools import partial

import trio

from swarm.mailbox.base.ids import short_id
from swarm.mailbox.parts.notices.notice_messages import (
    MAX_CHARS,
    NoticeBegan,
    NoticeEnded,
    NoticeKind,
    NotifySettings,
    PersonTold,
    Sink,
    TellPerson,
    Urgency,
)
from swarm.mailbox.protocol.records import (
    ApprovalRequested,
    ApprovalResolved,
    Record,
    RunCompleted,
)

from ....agents.agent_record import Agent
from ....part_access.part_host import PartHost, PartTeam
from ..http_sink import NotPosted, Post, post
from ..notice_content import RunNotice, cut_to_notice
from ..notice_history import NoticePast
from ..program_sink import NotStarted, run_program
from ..terminal_sink import NoTerminal, ring

QUESTION_AFTER_S = 20.0  # a person who is there has answered by then
_SINK_LIMIT_S = 15.0
_NOBODY = "nobody said where to be told anything (`[notify]` of the configuration)"
_TOO_LONG = f"not sent: a notice has at most {MAX_CHARS} characters, this one has {{length}}"


class NoticeService:
    """One per run."""

    def __init__(
        self, host: PartHost, team: PartTeam, past: NoticePast, nursery: trio.Nursery
    ) -> None:
        self._host = host
        self._team = team
        self._nursery = nursery
        self._settings: NotifySettings = host.request.parts.notices
        self._past = past
        self._sending = 0
        self._waiting: set[str] = set()  # approvals that wait for a person
        if self._settings.sinks and "questions" in self._settings.about:
            host.broadcast.listen(self._on_record)

    @property
    def is_idle(self) -> bool:
        """False while something is being sent: the run's end waits for it, some seconds at most."""
        return self._sending == 0

    # --- what is told --------------------------------------------------------------------------

    async def serve(self, _asker: Agent, request: TellPerson) -> PersonTold:
        """Serve `tell_person`; the reply comes when the notice is journaled."""
        if not self._settings.sinks or "agents" not in self._settings.about:
            return PersonTold(refusal=f"not sent: {_NOBODY}")
        if len(request.text) > MAX_CHARS:
            return PersonTold(refusal=_TOO_LONG.format(length=len(request.text)))
        if not request.text.strip():
            return PersonTold(refusal="not sent: the text is empty")
        refusal = await self._tell(request.text, "agent", request.urgency)
        return PersonTold(refusal=refusal)

    async def tell_end(self, completed: RunCompleted) -> None:
        """The run ends now; returns when that is told, or cannot be."""
        lifetime = self._host.request.lifetime
        is_wanted = "end" in self._settings.about and not lifetime.keep_open
        is_told = self._past.is_end_told and not self._team.manager.turns_started
        if not self._settings.sinks or not is_wanted or is_told:
            return
        await self._tell(f"the run has ended: {completed.status}", "end", "normal")
        with trio.move_on_after(_SINK_LIMIT_S):
            while not self.is_idle:
                await self._host.agents.wait_change()

    def _on_record(self, record: Record) -> None:
        match record.body:
            case ApprovalRequested(approval_id=approval, reviewer="person"):
                self._waiting.add(approval)
                self._nursery.start_soon(self._tell_question, approval)
            case ApprovalResolved(approval_id=approval):
                self._waiting.discard(approval)
            case _:
                pass

    async def _tell_question(self, approval: str) -> None:
        await trio.sleep(QUESTION_AFTER_S)
        if approval in self._waiting:
            text = f"a question waits for you: swarm approvals {self._name}"
            await self._tell(text, "question", "high")

    async def _tell(self, text: str, kind: NoticeKind, urgency: Urgency) -> str:
        """Journal it, then begin to send it; "", or why nothing is sent."""
        if refusal := self._past.refusal_now(kind, self._host.entropy.unix_s()):
            return refusal
        self._past.note(kind, self._host.entropy.unix_s())  # no await since the check
        redacted = self._host.journal.redactor.redact(text)
        began = NoticeBegan(
            notice_id=self._host.entropy.new_id(),
            text=cut_to_notice(redacted),
            kind=kind,
            urgency=urgency,
            sinks=self._settings.sinks,
        )
        self._sending += 1
        try:
            await self._host.commit(began)
        except BaseException:
            self._sending -= 1
            raise
        self._nursery.start_soon(self._send, RunNotice(began, self._name))
        return ""

    @property
    def _name(self) -> str:
        return short_id(self._host.run_id)

    # --- sinks ---------------------------------------------------------------------------------

    async def _send(self, notice: RunNotice) -> None:
        failed: dict[str, str] = {}

        async def carry(sink: Sink, send: Callable[[], Coroutine[None, None, None]]) -> None:
            with trio.move_on_after(_SINK_LIMIT_S) as limit:
                try:
                    await send()
                except (NotPosted, NotStarted, NoTerminal) as error:
                    failed[sink] = str(error)
            if limit.cancelled_caught:
                failed[sink] = f"it took over {_SINK_LIMIT_S:g} s"

        try:
            async with trio.open_nursery() as nursery:
                for sink in notice.began.sinks:
                    nursery.start_soon(carry, sink, partial(self._send_to, sink, notice))
            self._host.note(NoticeEnded(notice_id=notice.began.notice_id, failed=failed))
        finally:
            self._sending -= 1
            self._host.agents.notify_change()  # the run may be over now

    async def _send_to(self, sink: Sink, notice: RunNotice) -> None:
        """Raises NotPosted, NotStarted, NoTerminal."""
        settings, request = self._settings, self._host.request
        match sink:
            case "terminal":
                ring(notice.for_terminal())
            case "desktop":
                await run_program(notice.for_desktop("notify-send"), request)
            case "command":
                await run_program((*settings.command, notice.as_json().decode()), request)
            case "ntfy":
                headers = {**notice.for_ntfy(), **self._token(settings.ntfy_token_env)}
                body = notice.began.text.encode()
                await post(Post(settings.ntfy, body, headers), request.environment)
            case "webhook":
                headers = {
                    "Content-Type": "application/json",
                    **self._token(settings.webhook_token_env),
                }
                await post(Post(settings.webhook, notice.as_json(), headers), request.environment)

    def _token(self, variable: str) -> dict[str, str]:
        """The header with a sink's token; none if the variable was not set."""
        token = self._host.request.keys.get(variable, "") if variable else ""
        return {"Authorization": f"Bearer {token}"} if token else {}
