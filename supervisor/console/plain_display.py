"""Plain lines on stderr: text only, appended, never redrawn; only the answer on stdout.

Every state is a word, every line is complete by itself (who, what, how it ended), and nothing is
repeated: a continuing wait is printed once.
"""

from collections.abc import Callable
from typing import TextIO

from swarm.mailbox.ids import ROOT_PATH, is_reviewer, short_id
from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.control import AnyFeed, RunView, TransientEvent
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    PlanCall,
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
    RunStarted,
)

from .approval_description import approval_request_lines, describe_resolution
from .budget_description import describe_widening
from .final_answer import print_final_answer, summarize_run
from .line_spool import LineSpool
from .number_format import render_count, render_span, render_time
from .record_description import (
    describe_end,
    describe_fetching,
    describe_replaced,
    describe_shortly,
    describe_throttle,
    describe_turn_diff,
    describe_waiting,
)
from .safe_text import clean_block, clean_line, first_line
from .terminal import is_terminal

_MAX_MESSAGE_LINES = 40


class PlainState:
    """What later lines need from earlier ones."""

    def __init__(self) -> None:
        self.began = 0.0
        self.run = ""  # the run's short id
        self.calls: dict[tuple[str, str], str] = {}  # (path, call id) → its description
        self.waits: dict[str, str] = {}  # path → the last wait that was printed
        self.paths: dict[str, str] = {}  # agent id → path, while its process runs
        self.held_answer: list[str] = []  # the root's last message: it may be the answer
        self.fan_total = self.fan_ended = 0


def plain_lines(feed: AnyFeed, state: PlainState) -> list[str]:
    """The lines of one record or transient event, cleaned, without line feeds."""
    if isinstance(feed, TransientEvent):
        return _passing_lines(feed, state)
    record = feed.record
    if is_reviewer(record.agent):
        return []  # the result is reported with what was reviewed
    agent = _agent_of(record, state)
    words = _run_words(record, state) or _agent_words(record, state, agent)
    if not words:
        return []
    state.waits.pop(agent, None)
    lines = _with_head(words, agent, since=record.ts - state.began if state.began else 0.0)
    if isinstance(record.body, ItemRecorded) and agent == ROOT_PATH:
        held, state.held_answer = state.held_answer, lines
        return held
    if isinstance(record.body, CallBegan | TurnStarted) and agent == ROOT_PATH:
        held, state.held_answer = state.held_answer, []
        return held + lines
    return lines


def _with_head(words: list[str], agent: str, *, since: float) -> list[str]:
    head = f"[{render_span(since)}] {agent} " if agent else f"[{render_span(since)}] "
    return [head + words[0], *(f"    {line}" for line in words[1:])]


def _agent_of(record: Record, state: PlainState) -> str:
    body = record.body
    if isinstance(body, AgentSpawned):
        state.paths[body.agent_id] = body.path
        return clean_line(body.path)
    if isinstance(body, AgentEnded):
        return clean_line(state.paths.get(body.agent_id, record.agent))
    if isinstance(body, ProcessEnded):
        return clean_line(state.paths.pop(body.agent_id, record.agent))
    if isinstance(body, FanOutItemEnded):
        return clean_line(body.agent)
    return clean_line(record.agent)


def _run_words(record: Record, state: PlainState) -> list[str]:
    match record.body:
        case RunStarted() as body:
            state.began, state.run = record.ts, short_id(body.run_id)
            verb = "resumed" if body.resumed else "started"
            name = f"swarm {body.version} run {short_id(body.run_id)} {verb}"
            place = f"{body.cwd}{describe_widening(body.widened)}"
            return [clean_line(f"{name} at {render_time(record.ts)} in {place}: {body.title}")]
        case ProviderChosen() as body:
            why = f" ({body.why})" if body.why else ""
            return [clean_line(f"provider {body.provider}, model {body.model}{why}")]
        case GatewayEnded(reason=reason):
            return [clean_line(f"warning: the gateway ended and is started anew: {reason}")]
        case FanOutPlanned() as body:
            state.fan_total = len(body.items)
            return [f"fan-out: {len(body.items)} items, {body.concurrency} at a time"]
        case FanOutItemEnded() as body:
            state.fan_ended += 1
            count = f"{state.fan_ended}/{state.fan_total}"
            return [clean_line(f"fan-out item {count} {body.state}: {body.item}")]
        case _:
            return []


def _agent_words(record: Record, state: PlainState, agent: str) -> list[str]:
    match record.body:
        case AgentSpawned() as body:
            return [_spawned(body)]
        case TurnStarted(started_by=by):
            return [f"turn started by {by}"]
        case TurnCompleted() as body:
            return [f"turn completed after {_turn_cost(body)}"]
        case TurnFailed() as body:
            return [f"turn failed after {_turn_cost(body)}: {clean_line(body.message)}"]
        case TurnAborted() as body:
            return [f"turn aborted after {_turn_cost(body)}: {body.reason}"]
        case ItemRecorded(source="model", item=Message(role="assistant") as message):
            return _message(text_of(message.content))
        case CallBegan() as body:
            return _call_began(body, state, agent)
        case CallEnded() as body:
            words = state.calls.pop((agent, body.call_id), clean_line(body.tool))
            return [f"ended: {describe_end(body)}: {words}"]
        case MailPosted(mail=mail):
            kind = mail.kind.replace("_", " ")
            to = f"{clean_line(mail.author)} to {clean_line(mail.recipient)}"
            return [f"mail, {kind}, {to}: {first_line(mail.content)}"]
        case ContextRecorded() as body if body.shortened or body.undoes or body.rolled_back:
            return [describe_replaced(body)]
        case TurnDiff() as body:
            return [f"the turn changed {clean_line(describe_turn_diff(body))}"]
        case Warned(message=message):
            return [f"warning: {clean_line(message)}"]
        case ProcessEnded(orderly=False) as body:
            return [f"warning: process {body.pid} ended: {clean_line(body.reason)}"]
        case AgentEnded() as body:
            return [_ended(body)]
        case ApprovalRequested() as body:
            return approval_request_lines(body, run=state.run)
        case ApprovalResolved() as body:
            return [describe_resolution(body)]
        case _:
            return []


def _call_began(body: CallBegan, state: PlainState, agent: str) -> list[str]:
    tool = clean_line(body.tool, limit=40)
    words = f"{tool}: {describe_shortly(body.detail)}"
    state.calls[agent, body.call_id] = words
    if isinstance(body.detail, PlanCall):
        steps = [f"{step.status.replace('_', ' ')}: {step.step}" for step in body.detail.plan]
        return ["plan", *(clean_line(step) for step in steps[:_MAX_MESSAGE_LINES])]
    return [f"began: {words}"]


def _message(text: str) -> list[str]:
    lines = clean_block(text).strip().split("\n")
    shown = ["message", *lines[:_MAX_MESSAGE_LINES]]
    if len(lines) > _MAX_MESSAGE_LINES:
        shown.append(f"and {len(lines) - _MAX_MESSAGE_LINES} more lines")
    return shown if lines[0] or len(lines) > 1 else []


def _spawned(body: AgentSpawned) -> str:
    if body.epoch > 1:
        return f"started again, life {body.epoch}, process {body.pid}"
    words = f"started: role {body.role}, model {body.model or 'of the run'}, process {body.pid}"
    return clean_line(words + (f", called {body.nickname}" if body.nickname else ""))


def _turn_cost(body: TurnCompleted | TurnFailed | TurnAborted) -> str:
    return f"{render_span(body.duration_s)}, {render_count(body.usage.total_tokens)} tokens"


def _ended(body: AgentEnded) -> str:
    words = f"agent {body.state}, {render_count(body.usage.total_tokens)} tokens"
    return f"{words}: {line}" if (line := first_line(body.message)) else words


def _passing_lines(feed: TransientEvent, state: PlainState) -> list[str]:
    """A wait is printed when its reason changes, not each time it is repeated."""
    event = feed.event
    if isinstance(event, Throttled):
        agent, reason = "", event.reason if event.delay_s is not None else ""
        words = clean_line(f"waiting: {describe_throttle(event)}")
    elif isinstance(event, Fetching):
        agent, words = "", describe_fetching(event)
        quarter = event.have_bytes * 4 // event.total_bytes if event.total_bytes else 0
        reason = f"fetching {event.what} {quarter}"
    elif isinstance(event, Waiting):
        agent, reason = clean_line(feed.agent), f"{event.reason} {event.attempt}"
        words = clean_line(f"waiting: {describe_waiting(event)}")
    else:
        return []
    if state.waits.get(agent, "") == reason:
        return []
    state.waits[agent] = reason
    return [f"{agent} {words}".strip()] if reason else []


class PlainDisplay:
    """Plain lines of a run (a `RunDisplay`).

    Args:
        stderr: Receives the lines.
        stdout: Receives only the final answer.
        with_answer: False for a watcher: no answer is printed at the end.
    """

    def __init__(self, stderr: TextIO, stdout: TextIO, *, with_answer: bool = True) -> None:
        self._stderr, self._stdout = stderr, stdout
        self._with_answer = with_answer
        self._spool = LineSpool(stderr)
        self._state = PlainState()

    def on_feed(self, feed: AnyFeed) -> None:
        self._put(plain_lines(feed, self._state))

    async def draw(self, current: Callable[[], RunView]) -> None:
        """Write lines while the run goes on. The view is unused: lines come from records."""
        await self._spool.drain()

    def finish(self, completed: RunCompleted) -> None:
        """If both streams are terminals, the answer is printed once; a log on stderr has it too."""
        if not (is_terminal(self._stderr) and is_terminal(self._stdout) and self._with_answer):
            self._put(self._state.held_answer)
        self._put([summarize_run(completed)])
        self._spool.flush()
        if self._with_answer:
            print_final_answer(completed, stdout=self._stdout, stderr=self._stderr)

    def _put(self, lines: list[str]) -> None:
        if lines and self._spool.left_out and self._spool.has_room:
            lines = [f"{self._spool.left_out} lines left out: the reader is too slow", *lines]
            self._spool.left_out = 0
        encoding = self._stderr.encoding or "utf-8"
        for line in lines:
            self._spool.put((line + "\n").encode(encoding, "replace"))
