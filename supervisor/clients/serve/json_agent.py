"""The JSON lines of one agent's records, and what its later lines need of them. No I/O."""

from msgspec import UNSET

from swarm.mailbox.base.ids import ROOT_PATH
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
    Waiting,
    Warned,
)
from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ApprovalRequested,
    ApprovalResolved,
    ContextRecorded,
    ItemRecorded,
    ProcessEnded,
    Record,
)
from swarm.mailbox.protocol.review import EnteredReviewMode, ExitedReviewMode

from ...base.number_format import context_left
from ...parts.review.review_output import as_json
from ...views.approval_description import action_kind
from ...views.record_description import describe_sandbox
from .json_items import OpenItems, message_item
from .json_lines import (
    AgentSpawnedLine,
    AgentStatusLine,
    ApprovalRequestedLine,
    ApprovalResolvedLine,
    ContextCompactedLine,
    ContextRestoredLine,
    ErrorLine,
    ErrorText,
    HookCompletedLine,
    ItemCompletedLine,
    JsonLine,
    ProviderFallbackLine,
    ReviewEnteredLine,
    ReviewExitedLine,
    TurnCompletedLine,
    TurnDiffLine,
    TurnFailedLine,
    TurnStartedLine,
    WarningLine,
    json_usage,
)


class JsonAgent:
    """One agent. Lines come without its path unless they always have it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._items = OpenItems()
        self._total = TokenUsage()
        self._context_tokens = self._context_window = 0
        self._usd: float | None = None
        self._notice = ""  # the last notice, so that it is written once
        self.has_ended = False

    def record_lines(self, record: Record) -> list[JsonLine]:  # noqa: C901 - one case for each kind
        """The lines of a record that is about this agent."""
        item_id = f"item_{record.seq}"
        match record.body:
            case TurnStarted():
                self._notice = ""
                return [TurnStartedLine()]
            case TurnCompleted() | TurnFailed() | TurnAborted() as body:
                return [*self._items.close_turn(), *self._turn_ended(body)]
            case ItemRecorded(source="model", item=item):
                made = message_item(item, item_id)
                return [] if made is None else [ItemCompletedLine(item=made)]
            case CallBegan() as body:
                self._notice = ""
                return self._items.begin(body, item_id)
            case CallEnded() as body:
                return self._items.end(body, item_id)
            case TokenCount() as body:
                self._total = body.total
                self._context_tokens = body.context_tokens or self._context_tokens
                self._context_window = body.context_window or self._context_window
                return []
            case ResponseBilled(usd=float() as usd):
                self._usd = (self._usd or 0.0) + usd
                return []
            case ProviderFallback() as body:
                return [_fallback_line(body)]
            case HookRan() as body:
                return [_hook_line(body)]
            case Warned(message=message):
                return [WarningLine(message=message)]
            case EnteredReviewMode(target=target, hint=hint, reviewer=by):
                return [ReviewEnteredLine(target=target, hint=hint, reviewer=by or UNSET)]
            case ExitedReviewMode(output=output, reviewer=by):
                findings = None if output is None else as_json(output)
                return [ReviewExitedLine(output=findings, reviewer=by or UNSET)]
            case ProcessEnded() as body:
                lines = self._items.close_all()
                if not self.has_ended and not body.orderly:
                    lines.append(self._status("restarting", body.reason))
                return lines
            case AgentEnded() as body:
                return [*self._items.close_all(), self._ended(body)]
            case ContextRecorded() as body:
                return _context_lines(body)
            case ApprovalRequested() | ApprovalResolved() as body:
                return [_approval_line(body, self._path)]
            case _:
                return []

    def spawned_line(self, body: AgentSpawned, *, restarted: bool) -> JsonLine:
        """A process of it started; `restarted`: it is not its first one."""
        self.has_ended = False
        if body.usage.total_tokens:
            self._total = body.usage
        if body.usd is not None:
            self._usd = max(body.usd, self._usd or 0.0)
        if restarted:
            return self._status("starting", f"life {body.epoch}")
        return AgentSpawnedLine(
            agent=self._path, role=body.role, nickname=body.nickname, parent=body.parent,
            depth=body.depth, epoch=body.epoch, model=body.model, agent_id=body.agent_id,
            pid=body.pid, sandbox=describe_sandbox(body.limits.sandbox), node=body.node or UNSET,
        )  # fmt: skip

    def waiting_lines(self, event: Waiting) -> list[JsonLine]:
        """A retry or a wait, written once until something else follows."""
        tries = f" ({event.attempt}/{event.max_attempts})" if event.attempt else ""
        text = event.reason + tries
        if text == self._notice or self.has_ended:
            return []
        self._notice = text
        return [WarningLine(message=text) if event.attempt else self._status("waiting", text)]

    def close(self) -> list[JsonLine]:
        """The run has ended: complete every open item."""
        return self._items.close_all()

    def _turn_ended(self, body: TurnCompleted | TurnFailed | TurnAborted) -> list[JsonLine]:
        usage, total = json_usage(body.usage), json_usage(self._total)
        lines: list[JsonLine] = []
        match body:
            case TurnCompleted():
                done = TurnCompletedLine(
                    usage=usage,
                    total_usage=total,
                    context_tokens=self._context_tokens,
                    context_window=self._context_window,
                    context_left_percent=context_left(self._context_tokens, self._context_window),
                )
                return [done]
            case TurnAborted(reason=reason):
                why = reason.replace("_", " ")
                kind, message = str(reason), f"the turn was ended early: {why}"
            case TurnFailed(message=message):
                kind = str(body.kind)
                if self._path == ROOT_PATH:
                    lines.append(ErrorLine(message=message))
        error = ErrorText(message=message)
        return [*lines, TurnFailedLine(error=error, reason=kind, usage=usage, total_usage=total)]

    def _ended(self, body: AgentEnded) -> AgentStatusLine:
        self.has_ended = True
        return AgentStatusLine(
            agent=self._path,
            state="ended",
            end_state=body.state,
            message=body.message,
            usage=json_usage(body.usage if body.usage.total_tokens else self._total),
            usd=self._usd,
        )

    def _status(self, state: str, message: str) -> AgentStatusLine:
        return AgentStatusLine(agent=self._path, state=state, message=message)


def _context_lines(body: ContextRecorded) -> list[JsonLine]:
    if body.undoes:
        return [ContextRestoredLine(id=body.undoes, items=len(body.items))]
    if (done := body.shortened) is None:
        return []
    line = ContextCompactedLine(
        id=done.compaction_id, trigger=done.trigger, means=done.means,
        before_tokens=done.before_tokens, after_tokens=done.after_tokens,
        before_items=done.before_items, after_items=len(body.items),
    )  # fmt: skip
    return [line]


def turn_diff_line(body: TurnDiff) -> TurnDiffLine:
    return TurnDiffLine(
        turn_id=body.turn_id, unified_diff=body.diff, files=body.files, added=body.added,
        removed=body.removed, hidden=body.hidden, no_copy=body.no_copy,
        shared_with=body.shared_with, uncovered=body.uncovered,
        uncovered_count=body.uncovered_count, file=body.file or UNSET,
    )  # fmt: skip


def _approval_line(body: ApprovalRequested | ApprovalResolved, path: str) -> JsonLine:
    if isinstance(body, ApprovalResolved):
        return ApprovalResolvedLine(
            agent=path, id=body.approval_id, outcome=body.outcome, by=body.by, scope=body.scope,
            reason=body.reason,
        )  # fmt: skip
    request = body.request
    return ApprovalRequestedLine(
        agent=path, id=body.approval_id, kind=action_kind(request.action), action=request.action,
        cause=request.cause, reason=request.reason, reviewer=body.reviewer,
        preview=request.preview,
    )  # fmt: skip


def _hook_line(ran: HookRan) -> HookCompletedLine:
    return HookCompletedLine(
        id=ran.hook_id, event=ran.event, command=ran.command, source=ran.source,
        status=ran.status, decision=ran.decision, text=ran.text, call_id=ran.call_id,
        duration_ms=int(ran.duration_s * 1000),
    )  # fmt: skip


def _fallback_line(taken: ProviderFallback) -> ProviderFallbackLine:
    return ProviderFallbackLine(
        failed_provider=taken.failed_provider,
        failed_model=taken.failed_model,
        reason=taken.kind,
        message=taken.message,
        provider=taken.provider,
        model=taken.model,
    )
