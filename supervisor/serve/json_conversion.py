"""Convert records to JSON lines, in order; equal records give equal lines. No I/O.

Every started item is completed, whatever happens to its turn or its process. A recoverable problem
is a `warning`; an `error` appears only for the root, before the line that ends it.

Source: Codex `exec --json`. Differences: unique ids, usage per turn, and the additions in
`docs/json.md`.
"""

from msgspec import UNSET

from swarm.mailbox.ids import ROOT_PATH, is_reviewer
from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.control import TransientEvent
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Waiting,
    Warned,
)
from swarm.mailbox.protocol.gateway import (
    Fetching,
    LimitWindow,
    RateLimits,
    ResponseBilled,
    Throttled,
)
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
    ProcessEnded,
    ProviderChosen,
    Record,
    RunCompleted,
    RunStarted,
)
from swarm.mailbox.protocol.review import EnteredReviewMode, ExitedReviewMode

from ..console.number_format import context_left
from ..console.record_description import describe_fetching, describe_sandbox
from ..review.review_output import as_json
from .json_approvals import approval_line
from .json_items import message_item
from .json_lines import (
    AgentSpawnedLine,
    AgentStatusLine,
    AnyLine,
    ContextCompactedLine,
    ContextRestoredLine,
    ErrorLine,
    ErrorText,
    FanOutItemLine,
    FanOutPlannedLine,
    ItemCompletedLine,
    JsonRateLimit,
    ProviderLine,
    RateLimitsLine,
    ReviewEnteredLine,
    ReviewExitedLine,
    RunCompletedLine,
    ThreadStartedLine,
    TurnCompletedLine,
    TurnDiffLine,
    TurnFailedLine,
    TurnStartedLine,
    WarningLine,
    json_usage,
)
from .json_state import JsonAgent, JsonState


def record_lines(record: Record, state: JsonState) -> list[AnyLine]:
    """The lines of one record, without `ts` and `seq`. The first line is always `thread.started`.

    Lines from before the start of the root or of a fan-out are held back until then;
    `run.completed` does not wait.
    """
    state.track_budget(record)
    if is_reviewer(record.agent):
        return []  # the assessment line reports a reviewer's result
    path = state.paths.get(_agent_id(record), record.agent)
    lines = _run_lines(record, state)
    if lines is None:
        lines = _agent_lines(record, state, path)
    if path not in {"", ROOT_PATH}:
        for line in lines:
            line.agent = path
    if state.started:
        return lines
    state.early_lines += lines
    match record.body:
        case AgentSpawned(path="/root"):
            first = ThreadStartedLine(thread_id=record.body.agent_id, run=state.run_id)
            return _start_stream(state, [first])
        case FanOutPlanned(root_id=str() as root_id) if root_id:
            return _start_stream(state, [ThreadStartedLine(thread_id=root_id, run=state.run_id)])
        case RunCompleted():
            return _start_stream(state, [])
        case _:
            return []


def passing_event_lines(feed: TransientEvent, state: JsonState) -> list[AnyLine]:
    """Retries, waits and throttling, each written once until something else follows."""
    event = feed.event
    lines: list[AnyLine] = []
    if is_reviewer(feed.agent):
        return lines
    if isinstance(event, Throttled):
        words = event.reason if event.delay_s is not None else ""
        if words and words != state.throttle:
            lines.append(WarningLine(message=words))
        state.throttle = words
    elif isinstance(event, Fetching):
        words = describe_fetching(event) if event.have_bytes == event.total_bytes else ""
        if words:
            lines.append(WarningLine(message=words))
    elif isinstance(event, Waiting):
        agent = state.agent(feed.agent)
        tries = f" ({event.attempt}/{event.max_attempts})" if event.attempt else ""
        words = event.reason + tries
        if words != agent.notice and not agent.ended:
            agent.notice = words
            if event.attempt:
                lines.append(WarningLine(message=words))
            else:
                status = AgentStatusLine(state="waiting", message=words)
                status.agent = feed.agent
                lines.append(status)
    if feed.agent not in {"", ROOT_PATH}:
        for line in lines:
            line.agent = feed.agent
    return lines if state.started else []


def _start_stream(state: JsonState, first: list[AnyLine]) -> list[AnyLine]:
    state.started = True
    lines = first + state.early_lines
    state.early_lines = []
    return lines


def _agent_id(record: Record) -> str:
    body = record.body
    return body.agent_id if isinstance(body, AgentEnded | ProcessEnded | ResponseBilled) else ""


def _run_lines(record: Record, state: JsonState) -> list[AnyLine] | None:
    """Lines about the run; None if the record is about an agent."""
    match record.body:
        case RunStarted(run_id=run_id):
            state.run_id = run_id
            return []
        case ProviderChosen(provider=provider, model=model, why=why):
            return [ProviderLine(provider=provider, model=model, why=why)]
        case GatewayEnded(reason=reason):
            return [WarningLine(message=f"the gateway ended and is started anew: {reason}")]
        case FanOutPlanned(items=items, role=role, concurrency=concurrency):
            state.fan_total = len(items)
            return [FanOutPlannedLine(total=len(items), role=role, concurrency=concurrency)]
        case FanOutItemEnded() as body:
            state.fan_done += body.state == "completed"
            state.fan_failed += body.state != "completed"
            line = FanOutItemLine(
                index=body.index, item=body.item, state=body.state, attempt=body.attempt,
                done=state.fan_done, failed=state.fan_failed, total=state.fan_total,
            )  # fmt: skip
            line.agent = body.agent
            return [line]
        case RateLimits(windows=windows):
            return [RateLimitsLine(windows=tuple(map(_window, windows)))]
        case RunCompleted() as body:
            return _run_completed(body, state)
        case _:
            return None


def _window(told: LimitWindow) -> JsonRateLimit:
    return JsonRateLimit(
        name=told.name,
        used_percent=told.used_percent,
        window_minutes=told.window_minutes,
        resets_at_unix_s=told.resets_at_unix_s,
    )


def _run_completed(body: RunCompleted, state: JsonState) -> list[AnyLine]:
    lines: list[AnyLine] = []
    for path, agent in sorted(state.agents.items()):
        left = agent.items.close_all()
        for line in left:
            line.agent = UNSET if path == ROOT_PATH else path
        lines += left
    failed = body.status not in {"completed", "interrupted", "terminated"}
    if failed and body.message and body.message != state.root_error:
        lines.append(ErrorLine(message=body.message))
    last = RunCompletedLine(
        status=body.status,
        result=body.result,
        usage=json_usage(body.usage),
        agents=body.agents or state.spawned,
        run=state.run_id,
        message=body.message or UNSET,
        usd=body.usd,
        duration_s=body.duration_s,
        budget=state.budget_use(),
        review_usage=json_usage(state.review_usage) if state.reviews else UNSET,
        review_usd=state.review_usd if state.reviews else UNSET,
        redacted=body.redacted or UNSET,
    )
    return [*lines, last]


def _agent_lines(record: Record, state: JsonState, path: str) -> list[AnyLine]:  # noqa: C901 - one case for each kind
    body = record.body
    if isinstance(body, AgentSpawned):
        return _spawned(body, state)
    if not path:
        return [WarningLine(message=body.message)] if isinstance(body, Warned) else []
    if isinstance(body, TurnDiff):  # the agent's process may have ended
        return [_turn_diff(body)]
    agent = state.agent(path)
    item_id = f"item_{record.seq}"
    match body:
        case TurnStarted():
            agent.notice = ""
            return [TurnStartedLine()]
        case TurnCompleted() | TurnFailed() | TurnAborted():
            return _turn_ended(body, state, agent, path)
        case ItemRecorded(source="model", item=item):
            made = message_item(item, item_id)
            return [] if made is None else [ItemCompletedLine(item=made)]
        case CallBegan():
            agent.notice = ""
            return agent.items.begin(body, item_id)
        case CallEnded():
            return agent.items.end(body, item_id)
        case TokenCount(total=total):
            agent.total = total
            agent.context_tokens = body.context_tokens or agent.context_tokens
            agent.context_window = body.context_window or agent.context_window
            return []
        case ResponseBilled(usd=usd):
            agent.usd = agent.usd if usd is None else (agent.usd or 0.0) + usd
            return []
        case ContextRecorded():
            return _replaced(body)
        case Warned(message=message):
            return [WarningLine(message=message)]
        case EnteredReviewMode(target=target, hint=hint, reviewer=by):
            return [ReviewEnteredLine(target=target, hint=hint, reviewer=by or UNSET)]
        case ExitedReviewMode(output=output, reviewer=by):
            told = None if output is None else as_json(output)
            return [ReviewExitedLine(output=told, reviewer=by or UNSET)]
        case ProcessEnded() | AgentEnded():
            return _ended(body, state, agent, path)
        case ApprovalRequested() | ApprovalResolved():
            return [approval_line(body, path)]
        case _:
            return []


def _turn_diff(body: TurnDiff) -> TurnDiffLine:
    return TurnDiffLine(
        turn_id=body.turn_id, unified_diff=body.diff, files=body.files, added=body.added,
        removed=body.removed, hidden=body.hidden, no_copy=body.no_copy,
        shared_with=body.shared_with, uncovered=body.uncovered,
        uncovered_count=body.uncovered_count,
        file=body.file or UNSET,
    )  # fmt: skip


def _replaced(body: ContextRecorded) -> list[AnyLine]:
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


def _spawned(body: AgentSpawned, state: JsonState) -> list[AnyLine]:
    known = body.agent_id in state.paths
    state.paths[body.agent_id] = body.path
    agent = state.agent(body.path)
    agent.ended = False
    if body.usage.total_tokens:
        agent.total = body.usage
    if body.usd is not None:
        agent.usd = max(body.usd, agent.usd or 0.0)
    if known:
        status = AgentStatusLine(state="starting", message=f"life {body.epoch}")
        status.agent = body.path
        return [status]
    state.spawned += 1
    line = AgentSpawnedLine(
        role=body.role,
        nickname=body.nickname,
        parent=body.parent,
        depth=body.depth,
        epoch=body.epoch,
        model=body.model,
        agent_id=body.agent_id,
        pid=body.pid,
        sandbox=describe_sandbox(body.limits.sandbox),
    )
    line.agent = body.path
    return [line]


def _turn_ended(
    body: TurnCompleted | TurnFailed | TurnAborted, state: JsonState, agent: JsonAgent, path: str
) -> list[AnyLine]:
    lines: list[AnyLine] = list(agent.items.close_turn())
    usage, total = json_usage(body.usage), json_usage(agent.total)
    if isinstance(body, TurnCompleted):
        lines.append(
            TurnCompletedLine(
                usage=usage,
                total_usage=total,
                context_tokens=agent.context_tokens,
                context_window=agent.context_window,
                context_left_percent=context_left(agent.context_tokens, agent.context_window),
            )
        )
        return lines
    reason: str
    if isinstance(body, TurnAborted):
        reason, message = body.reason, f"the turn was ended early: {body.reason}"
    else:
        reason, message = body.kind, body.message
        if path == ROOT_PATH:
            state.root_error = message
            lines.append(ErrorLine(message=message))
    error = ErrorText(message=message)
    lines.append(TurnFailedLine(error=error, reason=reason, usage=usage, total_usage=total))
    return lines


def _ended(
    body: ProcessEnded | AgentEnded, state: JsonState, agent: JsonAgent, path: str
) -> list[AnyLine]:
    lines: list[AnyLine] = list(agent.items.close_all())
    if isinstance(body, ProcessEnded):
        if agent.ended:
            state.agents.pop(path, None)
        elif not body.orderly:
            status = AgentStatusLine(state="restarting", message=body.reason)
            status.agent = path
            lines.append(status)
        return lines
    agent.ended = True
    status = AgentStatusLine(
        state="ended",
        end_state=body.state,
        message=body.message,
        usage=json_usage(body.usage if body.usage.total_tokens else agent.total),
        usd=agent.usd,
    )
    status.agent = path
    lines.append(status)
    return lines
