"""Plain lines on stderr: text only, appended, never redrawn; only the answer on stdout.

Every state is a word, every line is complete by itself (who, what, how it ended), and nothing is
repeated: a continuing wait is printed once.
"""

import time
from collections.abc import Callable
from typing import TextIO

import trio
from msgspec.structs import replace

from swarm.mailbox.base.ids import ROOT_PATH, is_reviewer, short_id
from swarm.mailbox.parts.part_messages import PartRecord
from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.control import AnyFeed, Recorded, RunView, TransientEvent
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    HookRan,
    PlanCall,
    ProviderFallback,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Waiting,
    Warned,
)
from swarm.mailbox.protocol.gateway import Fetching, Throttled
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ApprovalRequested,
    ApprovalResolved,
    ContextRecorded,
    FanOutItemEnded,
    FanOutPlanned,
    GatewayEnded,
    ItemRecorded,
    MailPosted,
    ProcessEnded,
    ProviderChosen,
    Record,
    RunCompleted,
    RunIdle,
    RunStarted,
)

from ...base.number_format import render_count, render_span, render_time
from ...base.safe_text import clean_block, clean_line, first_line
from ...parts.part_lines import describe_part_news
from ...views.approval_description import approval_request_lines, describe_resolution
from ...views.budget_description import describe_widening
from ...views.record_description import (
    describe_end,
    describe_fallback,
    describe_fetching,
    describe_replaced,
    describe_shortly,
    describe_throttle,
    describe_turn_diff,
    describe_waiting,
    hook_warning,
)
from ...views.row_selection import end_word
from .final_answer import answer_bytes, caution_lines, print_final_answer, summarize_run
from .line_spool import LineSpool
from .run_summary import RunOutcome, SummaryRoom, agent_lines, describe_ends, outcome_lines
from .terminal import is_terminal
from .theme import glyphs_for
from .tree_view import RenderedLines

_MAX_MESSAGE_LINES = 40
_SUMMARY_WIDTH = 120  # cells of the table at the end
_ENDS_OF_TURNS = frozenset({"completed", "failed", "interrupted"})  # of agents, as turns end


class PlainLines:
    """Turns a feed into lines; keeps what later lines need from earlier ones.

    `clock`: Unix seconds, for waits, which no record dates.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._began = 0.0
        self._cwd = ""
        self._run = ""  # the run's short id
        self._calls: dict[tuple[str, str], str] = {}  # (path, call id) → its description
        self._waits: dict[str, str] = {}  # path → the last wait that was printed
        self._paths: dict[str, str] = {}  # agent id → path, while its process runs
        self._turn_ends = set[str]()  # agents whose last line says how their turn ended
        self._fan_total = self._fan_ended = 0
        self._held_answer: list[str] = []  # the root's last message: it may be the answer

    def take_answer(self) -> list[str]:
        """The lines of the root's last message, if they were held back."""
        held, self._held_answer = self._held_answer, []
        return held

    def add(self, feed: AnyFeed) -> list[str]:
        """The lines of one record or transient event, cleaned, without line feeds."""
        if isinstance(feed, TransientEvent):
            return self._transient_lines(feed)
        record = feed.record
        if is_reviewer(record.agent):
            return []  # the result is reported with what was reviewed
        agent = self._agent_of(record)
        texts = self._run_texts(record) or self._agent_texts(record, agent)
        if not texts:
            return []
        self._waits.pop(agent, None)
        head = f"{self._since(record.ts)} {agent} " if agent else f"{self._since(record.ts)} "
        lines = [head + texts[0], *(f"    {line}" for line in texts[1:])]
        if agent != ROOT_PATH:
            return lines
        if isinstance(record.body, ItemRecorded):
            held, self._held_answer = self._held_answer, lines
            return held
        if isinstance(record.body, CallBegan | TurnStarted):
            lines = self.take_answer() + lines
        return lines

    def _since(self, now: float) -> str:
        return f"[{render_span(max(now - self._began, 0.0) if self._began else 0.0)}]"

    def _agent_of(self, record: Record) -> str:
        body = record.body
        if isinstance(body, AgentSpawned):
            self._paths[body.agent_id] = body.path
            return clean_line(body.path)
        if isinstance(body, AgentEnded):
            return clean_line(self._paths.get(body.agent_id, record.agent))
        if isinstance(body, ProcessEnded):
            return clean_line(self._paths.pop(body.agent_id, record.agent))
        return clean_line(body.agent if isinstance(body, FanOutItemEnded) else record.agent)

    def _run_texts(self, record: Record) -> list[str]:
        if isinstance(record.body, PartRecord):
            return [text for text in (describe_part_news(record.body),) if text]
        match record.body:
            case RunStarted() as body:
                self._began, self._run = record.ts, short_id(body.run_id)
                self._cwd = body.cwd
                verb = "resumed" if body.resumed else "started"
                name = f"swarm {body.version} run {self._run} {verb}"
                place = f"{body.cwd}{describe_widening(body.widened)}"
                return [clean_line(f"{name} at {render_time(record.ts)} in {place}: {body.title}")]
            case ProviderChosen() as body:
                why = f" ({body.why})" if body.why else ""
                return [clean_line(f"provider {body.provider}, model {body.model}{why}")]
            case RunIdle() as body:
                why = f"{body.status}: {body.message}; " if body.message else ""
                send = f"`swarm send {self._run} root TEXT` goes on"
                text = f"{why}the run waits for input: {send}, `swarm end {self._run}` ends it"
                return [clean_line(text)]
            case GatewayEnded(reason=reason):
                return [clean_line(f"warning: the gateway ended and is started again: {reason}")]
            case FanOutPlanned() as body:
                self._fan_total = len(body.items)
                return [f"fan-out: {len(body.items)} items, {body.concurrency} at a time"]
            case FanOutItemEnded() as body:
                self._fan_ended += 1
                count = f"{self._fan_ended}/{self._fan_total}"
                return [clean_line(f"fan-out item {count} {body.state}: {body.item}")]
            case _:
                return []

    def _agent_texts(self, record: Record, agent: str) -> list[str]:
        match record.body:
            case AgentSpawned() as body:
                return [_spawned(body)]
            case TurnStarted(started_by=by):
                self._turn_ends.discard(agent)
                return [f"turn started by {by}"]
            case TurnCompleted() | TurnFailed() | TurnAborted() as body:
                self._turn_ends.add(agent)
                return [_turn_ended(body)]
            case ItemRecorded(source="model", item=Message(role="assistant") as message):
                return _message(text_of(message.content))
            case CallBegan() as body:
                return self._call_began(body, agent)
            case CallEnded() as body:
                call = self._calls.pop((agent, body.call_id), clean_line(body.tool))
                return [f"ended: {describe_end(body)}: {call}"]
            case MailPosted(mail=mail) if mail.kind != "final_answer":  # its author's last message
                kind = mail.kind.replace("_", " ")
                to = f"{clean_line(mail.author)} to {clean_line(mail.recipient)}"
                return [f"mail, {kind}, {to}: {first_line(mail.content)}"]
            case ContextRecorded() as body if body.shortened or body.undoes or body.rolled_back:
                return [describe_replaced(body)]
            case TurnDiff() as body:
                return [f"the turn changed {clean_line(describe_turn_diff(body))}"]
            case ProviderFallback() | Warned() | HookRan() as body:
                return _warnings(body)
            case ProcessEnded(orderly=False) as body:
                return [f"warning: process {body.pid} ended: {clean_line(body.reason)}"]
            case AgentEnded() as body:
                is_told = agent in self._turn_ends and body.state in _ENDS_OF_TURNS
                return [] if is_told else [_ended(body)]
            case ApprovalRequested() as body:
                return approval_request_lines(body, run=self._run)
            case ApprovalResolved() as body:
                return [describe_resolution(body)]
            case _:
                return []

    def _call_began(self, body: CallBegan, agent: str) -> list[str]:
        what = describe_shortly(body.detail)
        what = what.replace(f"{self._cwd}/", "") if self._cwd.strip("/") else what
        call = f"{clean_line(body.tool, limit=40)}: {what}"
        self._calls[agent, body.call_id] = call
        if isinstance(body.detail, PlanCall):
            steps = [f"{step.status.replace('_', ' ')}: {step.step}" for step in body.detail.plan]
            return ["plan", *(clean_line(step) for step in steps[:_MAX_MESSAGE_LINES])]
        return [f"began: {call}"]

    def _transient_lines(self, feed: TransientEvent) -> list[str]:
        """A wait is printed when its reason changes, not each time it is repeated."""
        event = feed.event
        if isinstance(event, Throttled):
            agent, reason = "", event.reason if event.delay_s is not None else ""
            text = clean_line(f"waiting: {describe_throttle(event)}")
        elif isinstance(event, Fetching):
            agent, text = "", describe_fetching(event)
            quarter = event.have_bytes * 4 // event.total_bytes if event.total_bytes else 0
            reason = f"fetching {event.what} {quarter}"
        elif isinstance(event, Waiting):
            agent, reason = clean_line(feed.agent), f"{event.reason} {event.attempt}"
            text = clean_line(f"waiting: {describe_waiting(event)}")
        else:
            return []
        if self._waits.get(agent, "") == reason:
            return []
        self._waits[agent] = reason
        since = self._since(self._clock())
        return [" ".join(filter(None, (since, agent, text)))] if reason else []


def _message(text: str) -> list[str]:
    lines = clean_block(text).strip().split("\n")
    shown = ["message", *lines[:_MAX_MESSAGE_LINES]]
    if len(lines) > _MAX_MESSAGE_LINES:
        shown.append(f"and {len(lines) - _MAX_MESSAGE_LINES} more lines")
    return shown if lines[0] or len(lines) > 1 else []


def _spawned(body: AgentSpawned) -> str:
    if body.epoch > 1:
        return f"started again, life {body.epoch}, process {body.pid}"
    text = f"started: role {body.role}, model {body.model or 'of the run'}, process {body.pid}"
    text += ", in a copy" if body.limits.isolation == "copy" else ""
    return clean_line(text + (f", called {body.nickname}" if body.nickname else ""))


def _turn_ended(body: TurnCompleted | TurnFailed | TurnAborted) -> str:
    match body:
        case TurnCompleted():
            return f"turn completed after {_turn_cost(body)}"
        case TurnFailed(message=message):
            return f"turn failed after {_turn_cost(body)}: {clean_line(message)}"
        case TurnAborted(reason="run_ended"):
            return f"turn cut off after {_turn_cost(body)}: the run ended"
        case TurnAborted(reason=reason):
            return f"turn aborted after {_turn_cost(body)}: {reason}"


def _turn_cost(body: TurnCompleted | TurnFailed | TurnAborted) -> str:
    return f"{render_span(body.duration_s)}, {render_count(body.usage.total_tokens)} tokens"


def _ended(body: AgentEnded) -> str:
    word = end_word(body.state, cut_off=body.cut_off)
    text = f"agent {word}, {render_count(body.usage.total_tokens)} tokens"
    return f"{text}: {line}" if (line := first_line(body.message)) else text


class PlainDisplay:
    """Plain lines of a run (a `RunDisplay`).

    Args:
        stderr: Receives the lines.
        stdout: Receives only the final answer; of a run that stays, each turn's answer.
        with_answer: False for a watcher: no answer is printed at the end.
        find_outcome: What is known about the run's files, asked once, at the end.
        clock: Unix seconds.
    """

    def __init__(
        self,
        stderr: TextIO,
        stdout: TextIO,
        *,
        with_answer: bool = True,
        find_outcome: Callable[[], RunOutcome] = RunOutcome,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stderr, self._stdout = stderr, stdout
        self._find_outcome = find_outcome
        self._current: Callable[[], RunView] = RunView
        self._with_answer = with_answer
        self._spool = LineSpool(stderr)
        self._lines = PlainLines(clock)
        self._answers = LineSpool(stdout)
        self._last_answer: str | None = None  # the one that was printed

    def on_feed(self, feed: AnyFeed) -> None:
        if isinstance(feed, Recorded) and isinstance(feed.record.body, RunIdle):
            self._put_answer(feed.record.body)
        self._put(self._lines.add(feed))

    def _put_answer(self, idle: RunIdle) -> None:
        """The answer of a turn of a run that stays."""
        self._put_message()
        if self._with_answer and idle.result:
            self._answers.put(answer_bytes(idle.result, self._stdout))
            self._last_answer = idle.result

    async def draw(self, current: Callable[[], RunView]) -> None:
        """Write lines while the run goes on. They come from records; the view is for the end."""
        self._current = current
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answers.drain)
            await self._spool.drain()

    def finish(self, completed: RunCompleted) -> None:
        """Print the last lines, and the answer unless it was printed when the run began to wait."""
        self._put_message()
        self._put(self._last_lines(completed))
        self._spool.flush()
        self._answers.flush()
        if completed.result and completed.result == self._last_answer:
            if completed.status == "completed":
                self._answers.check()
                return
            completed = replace(completed, result=None)
        if self._with_answer:
            print_final_answer(completed, stdout=self._stdout, stderr=self._stderr)

    def _last_lines(self, completed: RunCompleted) -> list[str]:
        """What the agents came to, if there are several, then the run itself."""
        view = replace(self._current(), status=completed.status)
        glyphs = glyphs_for(self._stderr.encoding or "utf-8")
        room = SummaryRoom(width=_SUMMARY_WIDTH, glyphs=glyphs)
        agents = agent_lines(view, room) if len(view.agents) > 1 else []
        files = outcome_lines(view, self._find_outcome(), room)
        return [
            *RenderedLines(agents).text.splitlines(),
            summarize_run(completed, describe_ends(view)),
            *RenderedLines([*files]).text.splitlines(),
            *caution_lines(completed),
        ]

    def _put_message(self) -> None:
        """On two terminals the answer is printed once; a log on stderr has it too."""
        held = self._lines.take_answer()
        if not (is_terminal(self._stderr) and is_terminal(self._stdout) and self._with_answer):
            self._put(held)

    def _put(self, lines: list[str]) -> None:
        if lines and (left_out := self._spool.take_left_out()):
            lines = [f"{left_out} lines left out: the reader is too slow", *lines]
        encoding = self._stderr.encoding or "utf-8"
        for line in lines:
            self._spool.put((line + "\n").encode(encoding, "replace"))


def _warnings(body: ProviderFallback | Warned | HookRan) -> list[str]:
    match body:
        case ProviderFallback():
            text = describe_fallback(body)
        case Warned(message=message):
            text = clean_line(message)
        case HookRan():
            text = hook_warning(body)
    return [f"warning: {text}"] if text else []
