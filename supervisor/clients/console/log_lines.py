"""`swarm log`: one line per record, in order. No I/O.

A line has the form `time agent kind text`. With `--json` it is the record's own line, byte for byte
as in the journal, so nothing is lost.
"""

from typing import assert_never

import msgspec

from swarm.mailbox.parts.part_messages import PartRecord
from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    HookRan,
    ProviderFallback,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Warned,
)
from swarm.mailbox.protocol.gateway import RateLimits, ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.host_records import (
    AnyHostRecord,
    HostDrained,
    HostJoined,
    HostLeft,
    HostPrepared,
)
from swarm.mailbox.protocol.merge_records import (
    AnyMergeRecord,
    ChangeDiscarded,
    ChangeMeasured,
    MergeBegan,
    MergeEnded,
)
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    AnyRecordBody,
    ApprovalRequested,
    ApprovalResolved,
    BudgetSet,
    ContextRecorded,
    FanOutItemEnded,
    FanOutPlanned,
    FilesChanged,
    GatewayEnded,
    GrantGiven,
    InputPosted,
    ItemRecorded,
    MailHandled,
    MailPosted,
    PauseSet,
    ProcessEnded,
    ProviderChosen,
    Record,
    Reserved,
    Reviewed,
    RunCompleted,
    RunIdle,
    RunStarted,
    SettingsChanged,
    SnapshotSettled,
    SnapshotTaken,
    Undone,
    WatchBegan,
    encode_record,
)
from swarm.mailbox.protocol.review import EnteredReviewMode, ExitedReviewMode
from swarm.mailbox.protocol.values.base import snake_case

from ...base.number_format import render_count, render_span, render_time, render_usd
from ...base.safe_text import clean_line, first_line
from ...parts.part_lines import describe_part_record, is_shown_by
from ...views.approval_description import describe_approval
from ...views.budget_description import describe_budget_record, describe_widening, describe_window
from ...views.record_description import (
    describe_end,
    describe_fallback,
    describe_hook,
    describe_item,
    describe_replaced,
    describe_sandbox,
    describe_shortly,
    describe_task,
    describe_turn_diff,
)
from .final_answer import describe_redactions


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    agent: str | None = None  # a path: only records of this agent, and mail from or to it
    mail: bool = False  # only mail
    reviews: bool = False  # only approvals and refused calls
    part: str = ""  # only records of this option of `part_names.LOG_OPTIONS`


def matches_filter(record: Record, wanted: LogFilter) -> bool:
    body = record.body
    if wanted.mail and not isinstance(body, MailPosted | MailHandled):
        return False
    if wanted.reviews and not _is_about_approval(body):
        return False
    if wanted.part and not (isinstance(body, PartRecord) and is_shown_by(body, wanted.part)):
        return False
    if wanted.agent is None or record.agent == wanted.agent:
        return True
    return isinstance(body, MailPosted) and wanted.agent in {body.mail.author, body.mail.recipient}


def _is_about_approval(body: AnyRecordBody) -> bool:
    """True for approval requests, answers, grants, reviews, and refused calls."""
    if isinstance(body, CallEnded):
        return body.status == "declined"
    return isinstance(body, ApprovalRequested | ApprovalResolved | GrantGiven | Reviewed)


def log_line(record: Record, *, as_json: bool = False) -> str:
    """One record as one line, without line feed."""
    if as_json:
        return encode_record(record).decode()
    kind = snake_case(type(record.body).__name__)
    agent = clean_line(record.agent) or "-"
    return f"{render_time(record.ts)} {agent} {kind} {describe_body(record.body)}".rstrip()


def describe_body(body: AnyRecordBody) -> str:  # noqa: C901 - one case for each kind
    """Describe a record. The match covers the whole union, so a new kind cannot be forgotten."""
    if isinstance(body, PartRecord):
        return describe_part_record(body)
    match body:
        case CallBegan() | CallEnded() | ItemRecorded() | ContextRecorded() | TokenCount():
            return clean_line(_turn_item_text(body))
        case TurnStarted() | TurnCompleted() | TurnFailed() | TurnAborted():
            return clean_line(_turn_text(body))
        case RunIdle():
            return clean_line(f"{body.status}: {first_line(body.message or body.result or '')}")
        case RunStarted() | ProviderChosen() | RunCompleted() | GatewayEnded() | ResponseBilled():
            return clean_line(_run_text(body))
        case EnteredReviewMode() | ExitedReviewMode():
            return clean_line(_review_text(body))
        case SettingsChanged() | PauseSet():
            return clean_line(_settings_text(body))
        case RateLimits(windows=windows):
            return clean_line(", ".join(map(describe_window, windows)))
        case BudgetSet() | Reserved() | ReservationReleased():
            return clean_line(describe_budget_record(body))
        case AgentSpawned() | ProcessEnded() | AgentEnded():
            return clean_line(_lifecycle_text(body))
        case ApprovalRequested() | ApprovalResolved() | GrantGiven() | Reviewed():
            return clean_line(describe_approval(body))
        case TurnDiff():
            return clean_line(describe_turn_diff(body))
        case SnapshotTaken() | SnapshotSettled() | Undone() | WatchBegan() | FilesChanged():
            return clean_line(_file_history_text(body))
        case MergeBegan() | MergeEnded() | ChangeDiscarded() | ChangeMeasured():
            return clean_line(_merge_text(body))
        case HostJoined() | HostPrepared() | HostDrained() | HostLeft():
            return clean_line(_host_text(body))
        case InputPosted(source=source):
            return clean_line(f"{source}: {describe_task(body)}")
        case MailPosted(mail=mail):
            head = f"{mail.mail_id} {mail.kind} {mail.author} → {mail.recipient}"
            return clean_line(f"{head}: {first_line(mail.content)}")
        case MailHandled(mail_id=mail_id, dead=dead, reason=reason):
            return clean_line(f"{mail_id} {'dead' if dead else 'handled'} {reason}")
        case ProviderFallback():
            return describe_fallback(body)
        case HookRan():
            return describe_hook(body)
        case Warned(message=message):
            return clean_line(message)
        case FanOutPlanned(items=items, role=role, concurrency=concurrency):
            return clean_line(f"{len(items)} items, {concurrency} at a time, role {role}")
        case FanOutItemEnded():
            text = f"{body.index} {body.item}: {body.state}, attempt {body.attempt}"
            return clean_line(f"{text}: {first_line(body.result)}")
        case _:
            assert_never(body)


def _review_text(body: EnteredReviewMode | ExitedReviewMode) -> str:
    by = f" by {body.reviewer}" if body.reviewer else ""
    if isinstance(body, EnteredReviewMode):
        return f"{body.hint or body.target}{by}"
    if body.output is None:
        return f"came to nothing{by}"
    count = len(body.output.findings)
    return f"{count} findings, {body.output.overall_correctness or 'no verdict'}{by}"


def _settings_text(body: SettingsChanged | PauseSet) -> str:
    if isinstance(body, PauseSet):
        return "paused by a person" if body.paused else "goes on"
    now = body.settings
    text = (
        f"model {now.model or 'default'}, effort {now.effort or 'default'}, "
        f"summary {now.summary}, verbosity {now.verbosity or 'default'}"
    )
    text += f", {describe_sandbox(now.limits.sandbox)}, {now.limits.approval}, {now.cwd}"
    mode = ", plan mode" if now.limits.planning else ""
    return f"{text}{mode}{', widened by a person' if now.widened else ''}"


def _turn_item_text(
    body: CallBegan | CallEnded | ItemRecorded | ContextRecorded | TokenCount,
) -> str:
    match body:
        case CallBegan():
            return f"{body.tool} {describe_shortly(body.detail)}"
        case CallEnded():
            return f"{body.tool} {describe_end(body)}"
        case ItemRecorded():
            return f"{body.source} {describe_item(body.item)}"
        case ContextRecorded():
            return f"{describe_replaced(body)} {first_line(body.summary)}"
        case TokenCount():
            share = f"{render_count(body.context_tokens)} of {render_count(body.context_window)}"
            return f"{body.last.total_tokens} tokens, {body.total.total_tokens} in all, {share}"


def _turn_text(body: TurnStarted | TurnCompleted | TurnFailed | TurnAborted) -> str:
    match body:
        case TurnStarted():
            return f"{body.model.provider} {body.model.slug}, started by {body.started_by}"
        case TurnCompleted():
            mark = " truncated" if body.truncated else " refused" if body.refused else ""
            return f"{render_span(body.duration_s)}{mark}: {first_line(body.last_message or '')}"
        case TurnFailed():
            return f"{body.kind} after {render_span(body.duration_s)}: {body.message}"
        case TurnAborted():
            why = body.reason.replace("_", " ")
            return f"{why} after {render_span(body.duration_s)}"


def _run_text(
    body: RunStarted | ProviderChosen | RunCompleted | GatewayEnded | ResponseBilled,
) -> str:
    match body:
        case RunStarted():
            place = f"{body.cwd}{describe_widening(body.widened)}"
            return f"{body.run_id} {'resumed ' if body.resumed else ''}{place}: {body.title}"
        case ProviderChosen():
            return f"{body.provider} {body.model}: {body.why}"
        case RunCompleted():
            text = f"{body.status} after {render_span(body.duration_s)}, {body.agents} agents"
            text += describe_redactions(body)
            return f"{text}: {first_line(body.message or body.result or '')}"
        case GatewayEnded():
            return f"life {body.epoch}: {body.reason}"
        case ResponseBilled():
            cost = "" if body.usd is None else f" {render_usd(body.usd)}"
            return f"{body.agent_id} {body.model} {body.usage.total_tokens} tokens{cost}"


def _file_history_text(
    body: SnapshotTaken | SnapshotSettled | Undone | WatchBegan | FilesChanged,
) -> str:
    match body:
        case WatchBegan():
            out = f", {body.uncovered_count} folders are not" if body.uncovered_count else ""
            return f"{body.files} files and folders are watched for changes{out}"
        case FilesChanged():
            shared = f", perhaps by {', '.join(body.shared_with[:8])}" if body.shared_with else ""
            return f"{body.change_id} {body.files} files changed{shared}"
        case SnapshotTaken():
            out = f", left out: {', '.join(body.left_out[:8])}" if body.left_out else ""
            return f"{body.snapshot_id} {body.files} files, {body.size_bytes} bytes{out}"
        case SnapshotSettled():
            return f"{body.snapshot_id} looked at after its call"
        case Undone():
            left = f", left alone: {', '.join(body.left[:8])}" if body.left else ""
            kept = f", what was there is in {body.kept_as}" if body.kept_as else ""
            return f"{body.snapshot_id} {body.restored} put back{left}{kept}"


def _host_text(body: AnyHostRecord) -> str:
    match body:
        case HostJoined():
            kind = f", copies are folders: {body.copies}" if body.copies else ""
            return f"{body.node}: {body.slots} slots, swarm {body.version}, {body.sandbox}{kind}"
        case HostPrepared():
            how = body.problem or f"prepared in {body.seconds:g} s"
            return f"{body.node}: {how}"
        case HostDrained() | HostLeft():
            return f"{body.node}: {body.reason}"


def _merge_text(body: AnyMergeRecord) -> str:
    match body:
        case MergeBegan(changes=changes):
            names = ", ".join(one.agent for one in changes[:8])
            return f"{body.merge_id} merges {names}: {sum(one.files for one in changes)} files"
        case MergeEnded():
            left = f", left alone: {', '.join(body.left[:8])}" if body.left else ""
            done = "done" if body.applied else f"nothing of it is done: {body.reason}"
            return f"{body.merge_id} {done}{left}"
        case ChangeDiscarded():
            return f"the change of {body.agent_id} was given up"
        case ChangeMeasured(conflicts=count):
            return f"in its copy: {body.size}" + (f", {count} in conflict" if count else "")


def _lifecycle_text(body: AgentSpawned | ProcessEnded | AgentEnded) -> str:
    match body:
        case AgentSpawned():
            text = f"{body.path} [{body.role}] life {body.epoch}, process {body.pid}"
            claims = f", claims {', '.join(body.claims[:8])}" if body.claims else ""
            copy = ", in a copy" if body.limits.isolation == "copy" else ""
            node = f", on {body.node}" if body.node else ""
            return f"{text}, {describe_sandbox(body.limits.sandbox)}{copy}{node}{claims}"
        case ProcessEnded():
            how = f"signal {body.signal}" if body.signal else f"exit code {body.exit_code}"
            order = "in order" if body.orderly else "not in order"
            return f"process {body.pid}, {how}, {order} {body.reason}"
        case AgentEnded():
            return f"{body.state}: {first_line(body.message)}"
