"""Describe calls and records in one short line each, the same in every view.

All returned text is cleaned (`safe_text`), so a caller may print it as it is.
"""

import shlex
from typing import assert_never

from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.events import (
    AnyCallDetail,
    CallEnded,
    CommandCall,
    FileChange,
    HookRan,
    McpCall,
    OtherCall,
    PatchCall,
    PlanCall,
    ProviderFallback,
    StdinCall,
    Waiting,
)
from swarm.mailbox.protocol.gateway import Fetching, Throttled
from swarm.mailbox.protocol.items import (
    AnyItem,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    ProviderItem,
    Reasoning,
    text_of,
)
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.parsed_command import (
    ListFiles,
    ParsedCommand,
    ReadFile,
    Search,
    Unknown,
)
from swarm.mailbox.protocol.records import ContextRecorded, InputPosted, MailPosted
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    ProfilePolicy,
    ReadOnly,
    SandboxPolicy,
)

from ..base.number_format import render_count, render_span
from ..base.safe_text import clean_line, first_line

_LIMIT = 200  # characters of one description
CHANGE_LETTERS = {"add": "A", "delete": "D", "update": "M"}


def describe_fallback(taken: ProviderFallback) -> str:
    """Which provider failed, why, and which one answers from now on."""
    failed = f"{taken.failed_provider} {taken.failed_model}".strip()
    now = f"{taken.provider} {taken.model or '(its default model)'}"
    text = f"provider {failed} failed ({taken.kind}): {taken.message}"
    return f"{clean_line(text, limit=_LIMIT)}; from now on {clean_line(now)} answers"


def describe_hook(ran: HookRan) -> str:
    """Which hook ran for what, what came of it, and its text."""
    outcome = ran.decision if ran.status in ("completed", "blocked") else ran.status
    text = f"{ran.event} hook {ran.hook_id} ({ran.command}): {outcome or 'no opinion'}"
    said = f": {ran.text}" if ran.text else ""
    return clean_line(f"{text}, {render_span(ran.duration_s)}{said}", limit=_LIMIT)


def hook_warning(ran: HookRan) -> str:
    """The line for a hook that failed or stopped something; "" for any other."""
    return describe_hook(ran) if ran.status != "completed" else ""


def describe_call(detail: AnyCallDetail) -> str:
    """The most telling argument: the script, the keys typed, the files, the current step."""
    match detail:
        case CommandCall():
            return clean_line(detail.script or shlex.join(detail.argv), limit=_LIMIT)
        case StdinCall():
            typed = clean_line(repr(detail.chars)[1:-1], limit=_LIMIT) if detail.chars else "wait"
            return clean_line(f"session {detail.session_id}: {typed}", limit=_LIMIT)
        case PatchCall():
            return clean_line(describe_changes(detail.changes), limit=_LIMIT)
        case PlanCall():
            done = sum(step.status == "completed" for step in detail.plan)
            current = [step.step for step in detail.plan if step.status == "in_progress"]
            head = f"{done}/{len(detail.plan)}"
            return clean_line(f"{head} {current[0]}" if current else head, limit=_LIMIT)
        case McpCall():
            return clean_line(f"{detail.server}.{detail.tool} {detail.arguments}", limit=_LIMIT)
        case OtherCall():
            return clean_line(detail.argument, limit=_LIMIT)
        case _:
            assert_never(detail)


def describe_doing(detail: AnyCallDetail) -> str:
    """`Read a.py, b.py; Search foo in src` for a command that only reads; else ""."""
    if not isinstance(detail, CommandCall):
        return ""
    return describe_meanings(detail.parsed_cmd)


def describe_shortly(detail: AnyCallDetail) -> str:
    """What a command does if that is known, else its most telling argument."""
    return describe_doing(detail) or describe_call(detail)


def describe_meanings(meanings: tuple[ParsedCommand, ...]) -> str:
    """What a command reads, lists and searches; "" for none."""
    text = ""
    before: ParsedCommand | None = None
    for one in meanings:
        more = isinstance(one, ReadFile) and isinstance(before, ReadFile)
        text += f"{', ' if more else '; ' if text else ''}{_meaning(one, is_more=more)}"
        before = one
    return clean_line(text, limit=_LIMIT)


def _meaning(meaning: ParsedCommand, *, is_more: bool) -> str:
    match meaning:
        case ReadFile(path=path):
            return path if is_more else f"Read {path}"
        case ListFiles(path=path):
            return f"List {path or 'files'}"
        case Search(query=query, path=path):
            return f"Search {query or 'files'}" + (f" in {path}" if path else "")
        case Unknown(cmd=cmd):
            return cmd
        case _:
            assert_never(meaning)


def describe_changes(changes: tuple[FileChange, ...]) -> str:
    """`A one.py, M two.py → three.py` (at most eight, then a count)."""
    shown = [
        f"{CHANGE_LETTERS[change.kind]} {clean_line(change.path)}"
        + (f" → {clean_line(change.move_path)}" if change.move_path else "")
        for change in changes[:8]
    ]
    if len(changes) > 8:
        shown.append(f"and {len(changes) - 8} more")
    return ", ".join(shown)


def describe_end(call: CallEnded) -> str:
    """How a call ended: `exit code 0 after 1.2 s`, `declined`, `goes on as session 3`."""
    if call.status == "declined":
        return "declined"
    span = f"after {render_span(call.duration_s)}"
    if call.status == "interrupted":
        return f"interrupted {span}"
    if call.session_id is not None and call.exit_code is None:
        return f"goes on as session {call.session_id}"
    if call.exit_code is not None:
        return f"exit code {call.exit_code} {span}"
    return f"{call.status} {span}"


def describe_task(body: InputPosted | MailPosted) -> str:
    """The first line of an agent's task; "" for mail that is not a task."""
    if isinstance(body, MailPosted):
        return first_line(body.mail.content) if body.mail.kind == "new_task" else ""
    texts = (part.text for part in body.parts[:8] if isinstance(part, TextInput))
    return next((line for text in texts if (line := first_line(text))), "")


def describe_sandbox(policy: SandboxPolicy) -> str:
    """The value of `--sandbox`, or the permission profile."""
    if isinstance(policy, DangerFullAccess):
        return "danger-full-access"
    if isinstance(policy, ProfilePolicy):
        return f"profile {policy.name}"
    return "read-only" if isinstance(policy, ReadOnly) else "workspace-write"


def describe_waiting(event: Waiting) -> str:
    """`rate limited, again in 12 s (2/5)`."""
    text = clean_line(event.reason, limit=200) or "waiting"
    if event.delay_s > 0:
        text += f", again in {render_span(event.delay_s)}"
    if event.attempt:
        text += f" ({event.attempt}/{event.max_attempts or '?'})"
    return text


def describe_throttle(event: Throttled) -> str:
    """What the shared rate limiter does; "" when it holds nothing back."""
    if event.delay_s is None:
        return ""
    text = clean_line(event.reason, limit=120) or "the provider asks for patience"
    text += f", next request in {render_span(event.delay_s)}"
    return f"{text}, {event.waiting} waiting" if event.waiting else text


def describe_fetching(event: Fetching) -> str:
    """`fetching the model smollm2: 23 of 93 MB`."""
    have, total = event.have_bytes / 1e6, event.total_bytes / 1e6
    text = f"fetching the model {clean_line(event.what, limit=60)}: {have:.0f}"
    return f"{text} of {total:.0f} MB" if total else f"{text} MB"


def describe_replaced(body: ContextRecorded) -> str:
    """Why a history was replaced, and how its size changed."""
    if body.undoes:
        return f"compaction undone: {len(body.items)} items again"
    if body.rolled_back:
        return f"{body.rolled_back} turns taken back: {len(body.items)} items stay"
    if (done := body.shortened) is None:
        return f"history replaced by {len(body.items)} items"
    why = {"limit": "nearly full", "overflow": "over its window", "person": "asked for"}
    how = {"model": "summary by the model", "provider": "by the provider", "cut": "without a model"}
    sizes = f"{render_count(done.before_tokens)} → {render_count(done.after_tokens)} tokens"
    counts = f"{done.before_items} → {len(body.items)} items"
    return f"history compacted: {sizes}, {counts} ({why[done.trigger]}; {how[done.means]})"


def describe_turn_diff(body: TurnDiff) -> str:
    """`3 files, +12 -4`, and how reliable that, or an undo of it, is."""
    text = f"{body.files} file{'' if body.files == 1 else 's'}, +{body.added} -{body.removed}"
    if body.hidden:
        text += f" (without {body.hidden} that are too much to show)"
    if body.shared_with:
        others = ", ".join(body.shared_with[:3])
        text += f"; some may be the work of {clean_line(others)}"
    if body.no_copy:
        text += f"; {body.no_copy} without a copy, which no undo brings back"
    if body.uncovered_count:
        some = ", ".join(body.uncovered[:3])
        many = body.uncovered_count
        text += (
            f"; what commands did in {many} folder{'' if many == 1 else 's'} is not known and no "
            f"undo covers it (too many files): {clean_line(some)}"
        )
    return text


def describe_item(item: AnyItem) -> str:
    """The first words of a history item."""
    match item:
        case Message():
            text = f"{item.role}: {first_line(text_of(item.content), limit=_LIMIT)}"
        case Reasoning():
            text = f"reasoning: {first_line(' '.join(item.summary), limit=_LIMIT) or '(hidden)'}"
        case FunctionCall():
            text = f"call {item.name} {item.arguments}"
        case CustomToolCall():
            text = f"call {item.name} {item.input}"
        case FunctionCallOutput() | CustomToolCallOutput():
            text = f"output: {first_line(text_of(item.output), limit=_LIMIT)}"
        case ProviderItem(kind=kind):
            text = f"{kind}: (of the provider)"
        case Compaction():
            text = "compaction: (sealed by the provider)"
        case _:
            assert_never(item)
    return clean_line(text, limit=_LIMIT)
