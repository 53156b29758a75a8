"""What the conversation prints above the live region: records as lines, in order. No I/O.

The transcript is that of one agent, with one line for what happens to others. All text is cleaned;
a message of the model is handed on as Markdown, to be wrapped at the width of the moment.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from rich.style import Style
from rich.text import Text

from swarm.mailbox.base.ids import ROOT_PATH, is_reviewer
from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    FileChange,
    OtherCall,
    PatchCall,
    PlanCall,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    Warned,
)
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.ops import CommandInput, ImageInput, TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    AnyRecordBody,
    ApprovalResolved,
    ContextRecorded,
    InputPosted,
    ItemRecorded,
    MailPosted,
    ProcessEnded,
    Record,
    RunCompleted,
    RunStarted,
)

from ...base.number_format import render_count, render_span
from ...base.safe_text import clean_block, clean_line, first_line
from ...views.approval_description import describe_resolution
from ...views.record_description import (
    describe_call,
    describe_doing,
    describe_end,
    describe_replaced,
    describe_turn_diff,
)
from ..console.diff_lines import diff_lines
from ..console.theme import BAD, BUSY, DIFF_STYLES, DIM, HEAD, PLAIN, STATE_STYLES, WARN

_OUTPUT_LINES, _DIFF_LINES, _INPUT_LINES = 6, 60, 12  # shown of each
_PLAN_MARKS = {"completed": "[x]", "in_progress": "[>]"}
_TEAM_TOOLS = frozenset({"spawn_agent", "wait_agent", "close_agent", "list_agents"})
_YOU = Style(bold=True, color="cyan")


class AnswerMarkdown(NamedTuple):
    """A message of the model: Markdown, cleaned of everything that could control a terminal."""

    text: str


TranscriptPart: TypeAlias = Text | AnswerMarkdown


class ChatTranscript:
    """Records become parts to print. One per attached run; records come once, in order."""

    def __init__(self, path: str = ROOT_PATH) -> None:
        self._path = path
        self._names: dict[str, str] = {}  # agent id → path
        self._calls: dict[str, CallBegan] = {}
        self._cwd = ""

    def add(self, record: Record) -> list[TranscriptPart]:
        """What this record adds; [] for most records."""
        body = record.body
        if isinstance(body, AgentSpawned):
            self._names[body.agent_id] = body.path
            self._cwd = body.cwd if body.path == self._path else self._cwd
        if record.agent == self._path:
            return list(self._own(body))
        return list(self._of_others(record))

    def _own(self, body: AnyRecordBody) -> Iterator[TranscriptPart]:
        match body:
            case InputPosted():
                yield from _words(body)
            case ItemRecorded():
                yield from _message(body)
            case CallBegan():
                self._calls[body.call_id] = body
            case CallEnded():
                yield from _call(self._calls.pop(body.call_id, None), body, self._cwd)
            case ContextRecorded():
                yield Text()
                yield Text(f"— {describe_replaced(body)} —", style=DIM)
            case TurnCompleted() | TurnFailed() | TurnAborted():
                yield from _turn(body)
            case TurnDiff():
                yield _line(f"  the turn changed {describe_turn_diff(body)}", DIM)
            case ApprovalResolved():
                yield _line(f"  {describe_resolution(body)}", DIM)
            case Warned(message=message):
                yield _line(f"  warning: {message}", WARN)
            case ProcessEnded(orderly=False):
                yield _line(f"  its process {body.pid} ended: {body.reason}", BAD)
            case _:
                return

    def _of_others(self, record: Record) -> Iterator[TranscriptPart]:
        match record.body:
            case RunStarted(isolation=isolation) if isolation:
                yield _line(isolation, DIM)
            case InputPosted(source="person") as body:
                yield _line(f"to {record.agent}:", DIM)
                yield from _words(body)
            case AgentSpawned(epoch=1, path=path, role=role) if path != self._path:
                if not is_reviewer(path):
                    yield _line(f"+ {path} [{role}] started", BUSY)
            case AgentEnded(agent_id=agent_id, state=state, message=message):
                path = self._names.get(agent_id, record.agent)
                if path and path != self._path and not is_reviewer(path):
                    text = f"- {path} {state}: {first_line(message)}".rstrip(": ")
                    yield _line(text, STATE_STYLES.get(state, PLAIN))
            case ApprovalResolved() as body:
                yield _line(f"  {record.agent}: {describe_resolution(body)}", DIM)
            case MailPosted(mail=mail) if mail.recipient == self._path:
                yield _line(f"  mail from {mail.author}: {first_line(mail.content)}", DIM)
            case Warned(message=message) if not record.agent:
                yield _line(f"  warning: {message}", WARN)
            case RunCompleted() as body:
                yield Text()
                yield _line(f"— the run ended: {body.status} —", STATE_STYLES.get(body.status, DIM))
                if body.status != "completed" and body.message:
                    yield _line(f"  {body.message}", WARN)
            case _:
                return


def _words(body: InputPosted) -> Iterator[TranscriptPart]:
    called = [part.typed for part in body.parts if isinstance(part, CommandInput)]
    texts = called or [part.text for part in body.parts if isinstance(part, TextInput)]
    pictures = [part.name for part in body.parts if isinstance(part, ImageInput)]
    yield Text()
    for index, line in enumerate(_head("\n".join(texts), _INPUT_LINES)):
        yield Text(("› " if index == 0 else "  ") + line, style=_YOU)
    for name in pictures:
        yield _line(f"  image {name}", DIM)


def _message(body: ItemRecorded) -> Iterator[TranscriptPart]:
    if not isinstance(body.item, Message):
        return
    text = clean_block(text_of(body.item.content)).strip()
    if body.source == "model" and text:
        yield Text()
        yield AnswerMarkdown(text)
    elif body.source == "note" and text and not text.startswith("<"):  # a tag is for the model
        yield _line(f"  note: {first_line(text)}", WARN)


def _call(began: CallBegan | None, ended: CallEnded, cwd: str) -> Iterator[TranscriptPart]:
    good = ended.status == "completed" and not ended.exit_code
    detail = None if began is None else began.detail
    match detail:
        case PlanCall(plan=plan):
            yield Text()
            yield Text("plan", style=HEAD)
            for step in plan:
                mark = _PLAN_MARKS.get(step.status, "[ ]")
                style = DIM if step.status == "completed" else PLAIN
                yield _line(f"  {mark} {step.step}", style)
            return
        case CommandCall():
            text = describe_doing(detail) or f"$ {describe_call(detail)}"
        case PatchCall():
            files = describe_call(detail).replace(f"{cwd}/", "") if cwd else describe_call(detail)
            text = f"changed {files}" if good else f"patch {files}"
        case OtherCall() if good and ended.tool in _TEAM_TOOLS:
            return  # the lines about the other agents say it
        case None:
            text = ended.tool
        case _:
            text = f"{ended.tool} {describe_call(detail)}"
    yield Text()
    yield _line(f"• {text}", HEAD if good else BAD)
    changes = ended.changes or (detail.changes if isinstance(detail, PatchCall) else ())
    yield from _diff(changes)
    if not (good and changes):
        yield from (Text(f"  {line}", style=DIM) for line in _ends(_printed(ended.output)))
    if not good:
        yield _line(f"  ({describe_end(ended)})", BAD)


def _diff(changes: tuple[FileChange, ...]) -> Iterator[Text]:
    for change in changes:
        lines = list(diff_lines(change.unified_diff)) if change.unified_diff else []
        for kind, line in lines[:_DIFF_LINES]:
            yield Text(f"  {clean_block(line)}", style=DIFF_STYLES[kind])
        if len(lines) > _DIFF_LINES:
            yield Text(f"  … {len(lines) - _DIFF_LINES} more lines", style=PLAIN)


def _turn(body: TurnCompleted | TurnFailed | TurnAborted) -> Iterator[TranscriptPart]:
    spent = f"{render_span(body.duration_s)}, {render_count(body.usage.total_tokens)} tokens"
    match body:
        case TurnCompleted():
            cut = ", cut at the model's output limit" if body.truncated else ""
            yield _line(f"  — {spent}{cut} —", DIM)
        case TurnFailed():
            yield _line(f"  the turn failed: {body.message}", BAD)
        case TurnAborted():
            words = {"interrupted": "stopped", "run_ended": "cut off"}.get(body.reason, body.reason)
            yield _line(f"  — {words} after {spent}; say how to go on —", WARN)


def _printed(output: str) -> str:
    """What the command printed, without the lines about it that the model gets."""
    head, found, printed = output.partition("\nOutput:\n")
    return printed if found and head.startswith(("Chunk ID:", "Wall time:")) else output


def _ends(output: str) -> list[str]:
    """The first and the last lines of an output."""
    lines = clean_block(output).rstrip().split("\n") if output.strip() else []
    if len(lines) <= _OUTPUT_LINES:
        return lines
    half = _OUTPUT_LINES // 2
    return [*lines[:half], f"… {len(lines) - 2 * half} lines", *lines[-half:]]


def _head(text: str, limit: int) -> list[str]:
    lines = clean_block(text).rstrip().split("\n") if text.strip() else []
    if len(lines) <= limit:
        return lines
    return [*lines[:limit], f"… {len(lines) - limit} more lines"]


def _line(text: str, style: Style) -> Text:
    indent = len(text) - len(text.lstrip(" "))
    return Text(" " * indent + clean_line(text, limit=1_000), style=style)
