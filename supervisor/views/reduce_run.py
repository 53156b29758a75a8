"""Reduce the run's own figures: (view, event, time) → view. No I/O."""

from sys import intern

from msgspec.structs import replace

from swarm.mailbox.parts.part_messages import PartRecord
from swarm.mailbox.protocol.approvals import (
    ApprovalRequest,
    CommandAction,
    McpToolAction,
    NetworkAction,
    PatchAction,
    PendingApproval,
)
from swarm.mailbox.protocol.changes import shorten_change
from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.mailbox.protocol.events import HookRan, ProviderFallback, TokenCount, TurnStarted, Warned
from swarm.mailbox.protocol.gateway import RateLimits, ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.records import (
    AnyRecordBody,
    ApprovalRequested,
    ApprovalResolved,
    FanOutPlanned,
    GatewayEnded,
    ProviderChosen,
    Record,
    Reviewed,
    RunCompleted,
    RunIdle,
    RunStarted,
)
from swarm.mailbox.protocol.server_sampling import SamplingAction
from swarm.mailbox.protocol.values.limits import Budget

from ..approvals.approval_limits import cut_sampling, cut_text
from ..base.safe_text import clean_line
from ..parts.part_lines import fold_figures
from .approval_description import describe_pending


def reduce_run(run: RunView, body: AnyRecordBody, at: float) -> RunView:
    """Apply a record to the figures of the run; the agents are not considered.

    A resume sets `started` again: ages and rates count from there.
    """
    if isinstance(body, PartRecord):
        return replace(run, parts=fold_figures(run.parts, body))
    match body:
        case RunStarted():
            return replace(
                run,
                run_id=intern(body.run_id),
                title=clean_line(body.title, limit=120),
                task=clean_line(body.task),
                cwd=clean_line(body.cwd),
                widened=body.widened,
                started=at,
                status="running",
                budget=Budget(),  # `BudgetSet` sets it again
                deadline_unix_s=None,
            )
        case ProviderChosen():
            return _with_provider(run, body)
        case TokenCount(last=last):
            return replace(run, usage=run.usage.plus(last))
        case RateLimits(windows=windows):
            return replace(run, rate_limits=windows)
        case ResponseBilled() | ReservationReleased():
            return _billed(run, body)
        case Warned() | GatewayEnded() | ProviderFallback() | HookRan(status="failed"):
            return replace(run, warnings=run.warnings + 1)
        case FanOutPlanned(items=items):
            return replace(run, fan_total=len(items), fan_done=0, fan_failed=0)
        case RunIdle():
            return replace(run, status="idle")
        case TurnStarted() if run.status == "idle":
            return replace(run, status="running")
        case RunCompleted():
            usage = body.usage if body.usage.total_tokens else run.usage
            usd = run.usd if body.usd is None else body.usd
            return replace(run, status=body.status, usage=usage, usd=usd, throttle="")
        case _:
            return run


def _with_provider(run: RunView, body: ProviderChosen) -> RunView:
    return replace(
        run,
        provider=clean_line(body.provider),
        model=clean_line(body.model),
        why=clean_line(body.why),
        caution=clean_line(body.caution),
        fetching="",
    )


def _billed(run: RunView, bill: ResponseBilled | ReservationReleased) -> RunView:
    """Add what counts against the limits; a `ReservationReleased` counts like a bill."""
    usd: float | None
    match bill:
        case ReservationReleased():
            tokens, usd, requests = bill.tokens, bill.usd or None, bill.requests
        case ResponseBilled():
            tokens, usd, requests = bill.usage.total_tokens, bill.usd, 1
    if usd is not None or run.usd is not None:
        usd = (run.usd or 0.0) + (usd or 0.0)
    return replace(
        run,
        usd=usd,
        drawn_tokens=run.drawn_tokens + tokens,
        drawn_requests=run.drawn_requests + requests,
    )


_SHOWN = 4_000  # characters of a script or of one diff
_ITEM, _MOST_ITEMS = 400, 16  # limits of a command or of a list of files


def reduce_queue(
    waiting: tuple[PendingApproval, ...], record: Record
) -> tuple[PendingApproval, ...]:
    """The queue after this record; the same object if nothing changed."""
    match record.body:
        case ApprovalRequested() as body:
            pending = PendingApproval(
                approval_id=body.approval_id,
                agent=record.agent,
                request=body.request,
                reviewer=body.reviewer,
                asked_at=record.ts,
            )
            return (*waiting, shrink_pending(pending))
        case ApprovalResolved(approval_id=answered):
            return tuple(one for one in waiting if one.approval_id != answered)
        case RunStarted() | RunCompleted():
            return ()
        case _:
            return waiting


def reduce_cost(run: RunView, body: AnyRecordBody) -> RunView:
    """Add the tokens and dollars of a review, separately from the agents'."""
    if not isinstance(body, Reviewed):
        return run
    usd = run.review_usd
    if body.usd is not None:
        usd = (usd or 0.0) + body.usd
    return replace(run, review_usage=run.review_usage.plus(body.usage), review_usd=usd)


def mark_waiting(view: AgentView, pending: PendingApproval) -> AgentView:
    """The row of an agent whose approval waits."""
    asked = pending.approval_id if pending.reviewer == "person" else ""
    return replace(view, state="waiting", approval=asked, note=describe_pending(pending))


def unmark(view: AgentView) -> AgentView:
    """The row of an agent whose approval no longer waits."""
    state = "running" if view.state == "waiting" else view.state
    return replace(view, state=state, approval="", note="")


def shrink_pending(pending: PendingApproval) -> PendingApproval:
    """At most about 40 KiB of it, as a view holds it; `is_short` says that something is missing."""
    whole = without_grant_keys(pending.request)
    short = _shrink_request(whole)
    return replace(pending, request=short, is_short=pending.is_short or short != whole)


def without_grant_keys(request: ApprovalRequest) -> ApprovalRequest:
    """Of the keys, which are for grants, one stays as a sign that there are some."""
    return replace(request, keys=tuple(key[:80] for key in request.keys[:1]))


def _shrink_request(request: ApprovalRequest) -> ApprovalRequest:
    """Each text at most `_SHOWN` characters; the journal has all of it."""
    action = request.action
    if isinstance(action, CommandAction):
        action = replace(
            action,
            script=cut_text(action.script, _SHOWN),
            argv=_cut_items(action.argv),
        )
    elif isinstance(action, PatchAction):
        changes = tuple(shorten_change(one, _SHOWN) for one in action.changes[:8])
        action = replace(action, changes=changes, files=_cut_items(action.files))
    elif isinstance(action, NetworkAction):
        action = replace(action, trigger=cut_text(action.trigger, _SHOWN))
    elif isinstance(action, McpToolAction):
        action = replace(
            action,
            arguments=cut_text(action.arguments, _SHOWN),
            description=cut_text(action.description, _SHOWN),
        )
    elif isinstance(action, SamplingAction):
        action = cut_sampling(action, _SHOWN)
    return replace(
        request,
        action=action,
        reason=cut_text(request.reason, _SHOWN),
        retry_reason=cut_text(request.retry_reason, _SHOWN),
    )


def _cut_items(items: tuple[str, ...]) -> tuple[str, ...]:
    kept = tuple(cut_text(item, _ITEM) for item in items[:_MOST_ITEMS])
    if len(items) > _MOST_ITEMS:
        kept = (*kept, f"… [{len(items) - _MOST_ITEMS} more]")
    return kept
