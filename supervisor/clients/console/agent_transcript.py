"""Render the transcript of one agent from its records: `swarm show RUN AGENT`. No I/O.

The task comes first, then the events in order; long outputs are cut after their first lines, and
patches are shown as diffs. Lines are Rich texts of cleaned text, so the plain form is `.plain`.
"""

from collections.abc import Iterable, Iterator

from rich.style import Style
from rich.text import Text

from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    FileChange,
    HookRan,
    PatchCall,
    PlanCall,
    ProviderFallback,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Warned,
)
from swarm.mailbox.protocol.items import Message, Reasoning, text_of
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    AnyRecordBody,
    ContextRecorded,
    InputPosted,
    ItemRecorded,
    MailPosted,
    ProcessEnded,
    Record,
)

from ...base.number_format import render_count, render_span
from ...base.safe_text import clean_block, clean_line
from ...views.record_description import (
    describe_call,
    describe_doing,
    describe_end,
    describe_fallback,
    describe_hook,
    describe_replaced,
    describe_sandbox,
    describe_turn_diff,
)
from .diff_lines import diff_lines
from .theme import BAD, BUSY, DIFF_STYLES, DIM, GOOD, HEAD, PLAIN, STATE_STYLES, WARN

_OUTPUT_LINES, _DIFF_LINES = 12, 60  # shown of an output and of a diff


def transcript_lines(records: Iterable[Record], path: str) -> Iterator[Text]:
    """The transcript of the agent at `path`; records of other agents are skipped."""
    transcript = AgentTranscript(path)
    for record in records:
        yield from transcript.add_record(record)


class AgentTranscript:
    """The transcript of one agent as it grows: call `add_record` once per record, in order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._agent_id = ""
        self._turns = 0
        self._count: TokenCount | None = None
        self._patches: dict[str, tuple[FileChange, ...]] = {}  # call id → the requested changes

    def add_record(self, record: Record) -> Iterator[Text]:
        """The record's lines; none for a record of another agent."""
        if record.agent == self._path or self._concerns(record.body):
            yield from self._render(record)

    def _concerns(self, body: AnyRecordBody) -> bool:
        """Records of other agents that belong here: mail to or from this agent, the end of its
        process.
        """
        match body:
            case MailPosted(mail=mail):
                return self._path in {mail.recipient, mail.author}
            case AgentSpawned(path=path):
                return path == self._path
            case AgentEnded(agent_id=agent_id) | ProcessEnded(agent_id=agent_id):
                return agent_id == self._agent_id
            case _:
                return False

    def _render(self, record: Record) -> Iterator[Text]:
        match record.body:
            case AgentSpawned() as body:
                self._agent_id = body.agent_id
                yield from _spawned(body)
            case InputPosted() as body:
                texts = (part.text for part in body.parts if isinstance(part, TextInput))
                title = {"task": "task", "fan_out": "task (fan-out)"}.get(body.source, "input")
                yield from _block(title, "\n".join(texts), HEAD)
            case MailPosted(mail=mail):
                kind = mail.kind.replace("_", " ")
                title = f"{kind} from {mail.author} to {mail.recipient}"
                yield from _block(title, mail.content, BUSY)
            case ItemRecorded() as body:
                yield from self._item(body)
            case CallBegan() | CallEnded():
                yield from self._call(record.body)
            case ContextRecorded() as body:
                yield Text(f"— {describe_replaced(body)} —", style=DIM)
                yield from _indented(body.summary, DIM, limit=_OUTPUT_LINES)
            case TokenCount() as body:
                self._count = body
            case TurnDiff() as body:
                yield _line(f"— the turn changed {describe_turn_diff(body)} —", DIM)
            case ProviderFallback() | HookRan() | Warned() as body:
                yield _notice(body)
            case ProcessEnded(orderly=False) as body:
                yield _line(f"process {body.pid} ended: {body.reason}", BAD)
                yield from _indented(body.stderr_tail, DIM, limit=_OUTPUT_LINES)
            case AgentEnded() as body:
                yield Text()
                yield _line(f"ended: {body.state}", STATE_STYLES.get(body.state, PLAIN))
                if body.state != "completed":
                    yield from _indented(body.message, PLAIN, limit=None)
            case TurnStarted() | TurnCompleted() | TurnFailed() | TurnAborted():
                yield from self._turn(record.body)
            case _:
                return

    def _turn(self, body: TurnStarted | TurnCompleted | TurnFailed | TurnAborted) -> Iterator[Text]:
        if isinstance(body, TurnStarted):
            self._turns += 1
            effort = f", effort {body.effort}" if body.effort else ""
            yield Text()
            yield _line(f"— turn {self._turns}: {body.model.slug}{effort} —", DIM)
            return
        spent = f"{render_span(body.duration_s)}, {render_count(body.usage.total_tokens)} tokens"
        if (count := self._count) is not None:
            spent += f", {render_count(count.total.total_tokens)} in all"
            if count.context_window:
                share = 100 * count.context_tokens // count.context_window
                spent += f", {share}% of the window in use"
        match body:
            case TurnCompleted():
                yield Text(f"— turn completed: {spent} —", style=DIM)
            case TurnFailed():
                yield _line(f"turn failed after {spent}: {body.message}", BAD)
            case TurnAborted():
                why = body.reason.replace("_", " ")
                yield Text(f"turn aborted after {spent}: {why}", style=WARN)

    def _item(self, body: ItemRecorded) -> Iterator[Text]:
        match body.item:
            case Message() as message:
                text = text_of(message.content)
                if body.source == "model":
                    yield from _block("agent", text, GOOD)
                elif body.source == "note":
                    yield from _block("note", text, WARN)
            case Reasoning() as reasoning:
                text = "\n".join(reasoning.summary or reasoning.content)
                yield from _block("reasoning", text, DIM)
            case _:
                return

    def _call(self, body: AnyRecordBody) -> Iterator[Text]:
        if isinstance(body, CallBegan):
            yield Text()
            match body.detail:
                case CommandCall() as command:
                    yield from _command(command)
                case PatchCall(changes=changes):
                    self._patches[body.call_id] = changes
                case PlanCall(plan=plan):
                    yield Text("plan", style=HEAD)
                    for step in plan:
                        mark = {"completed": "x", "in_progress": ">"}.get(step.status, " ")
                        yield _line(f"  [{mark}] {step.step}", PLAIN)
                case detail:
                    yield _line(f"{body.tool} {describe_call(detail)}", HEAD)
        elif isinstance(body, CallEnded):
            changes = body.changes or self._patches.pop(body.call_id, ())
            yield from _diff(changes, limit=_DIFF_LINES)
            yield from _indented(body.output, DIM, limit=_OUTPUT_LINES)
            good = body.status == "completed" and not body.exit_code
            yield Text(f"  ({describe_end(body)})", style=DIM if good else BAD)


def _spawned(body: AgentSpawned) -> Iterator[Text]:
    if body.epoch > 1:
        yield _line(f"— started again: life {body.epoch}, process {body.pid} —", WARN)
        return
    name = f"{body.path} [{body.role}]" + (f" {body.nickname}" if body.nickname else "")
    yield _line(name, HEAD)
    facts = [body.model or "", describe_sandbox(body.limits.sandbox), body.cwd]
    yield _line(", ".join(fact for fact in facts if fact), DIM)


def _command(command: CommandCall) -> Iterator[Text]:
    doing = describe_doing(command)
    if doing:
        yield Text(doing, style=HEAD)
    script = clean_block(command.script or " ".join(command.argv)).strip().split("\n")
    for index, line in enumerate(script):
        yield Text(("$ " if index == 0 else "> ") + line, style=DIM if doing else HEAD)
    where = f"in {command.cwd}" + (f", {command.sandbox}" if command.sandbox else "")
    yield _line(f"  {where}", DIM)


def _diff(changes: tuple[FileChange, ...], *, limit: int | None) -> Iterator[Text]:
    for change in changes:
        moved = f" → {change.move_path}" if change.move_path else ""
        yield _line(f"{change.kind} {change.path}{moved}", HEAD)
        lines = list(diff_lines(change.unified_diff)) if change.unified_diff else []
        for kind, line in lines[:limit]:
            yield Text(f"  {clean_block(line)}", style=DIFF_STYLES[kind])
        if limit is not None and len(lines) > limit:
            yield Text(f"  … {len(lines) - limit} more lines", style=PLAIN)


def _block(title: str, text: str, style: Style) -> Iterator[Text]:
    if lines := _head(text, None):
        yield Text()
        yield _line(title, style)
        yield from (Text(f"  {line}") for line in lines)


def _indented(text: str, style: Style, *, limit: int | None) -> Iterator[Text]:
    for line in _head(text, limit):
        yield Text(f"  {line}", style=style)


def _head(text: str, limit: int | None) -> list[str]:
    lines = clean_block(text).rstrip().split("\n") if text.strip() else []
    if limit is None or len(lines) <= limit:
        return lines
    return [*lines[:limit], f"… {len(lines) - limit} more lines"]


def _line(text: str, style: Style) -> Text:
    indent = len(text) - len(text.lstrip(" "))
    return Text(" " * indent + clean_line(text, limit=2_000), style=style)


def _notice(body: ProviderFallback | HookRan | Warned) -> Text:
    match body:
        case ProviderFallback():
            return _line(f"warning: {describe_fallback(body)}", WARN)
        case HookRan():
            return _line(describe_hook(body), DIM if body.status == "completed" else WARN)
        case Warned(message=message):
            return _line(f"warning: {message}", WARN)
