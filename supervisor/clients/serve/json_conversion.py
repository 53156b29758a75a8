"""Convert records to JSON lines, in order; equal records give equal lines. No I/O.

Every started item is completed, whatever happens to its turn or its process. A recoverable problem
is a `warning`; an `error` appears only for the root, before the line that ends it.

Source: Codex `exec --json`. Differences: unique ids, usage per turn, and the additions in
`docs/json.md`.
"""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET

from swarm.mailbox.base.ids import ROOT_PATH, is_reviewer
from swarm.mailbox.parts.part_messages import PartRecord
from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.control import TransientEvent
from swarm.mailbox.protocol.events import TurnFailed, Waiting, Warned
from swarm.mailbox.protocol.gateway import (
    Fetching,
    LimitWindow,
    RateLimits,
    ReservationReleased,
    ResponseBilled,
    Throttled,
)
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    BudgetSet,
    FanOutItemEnded,
    FanOutPlanned,
    GatewayEnded,
    ProcessEnded,
    ProviderChosen,
    Record,
    Reviewed,
    RunCompleted,
    RunIdle,
    RunStarted,
)

from ...parts.part_lines import part_json_lines
from ...views.record_description import describe_fetching
from .json_agent import JsonAgent, turn_diff_line
from .json_lines import (
    BudgetUse,
    ErrorLine,
    FanOutItemLine,
    FanOutPlannedLine,
    JsonLine,
    JsonRateLimit,
    ProviderLine,
    RateLimitsLine,
    RunCompletedLine,
    RunIdleLine,
    ThreadStartedLine,
    WarningLine,
    json_usage,
)


class JsonConversion:
    """The conversion of one run: small for each ended agent, more for agents with a process."""

    def __init__(self) -> None:
        self._run_id = ""
        self._has_started = False  # `thread.started` was written
        self._early_lines: list[JsonLine] = []  # lines held back until then
        self._agents: dict[str, JsonAgent] = {}  # by path
        self._paths: dict[str, str] = {}  # agent id → path
        self._root_error = ""
        self._throttle = ""
        self._fan_total = self._fan_done = self._fan_failed = 0
        self._budget = BudgetUse()
        self._reviews = 0
        self._review_usage = TokenUsage()
        self._review_usd: float | None = None

    def record_lines(self, record: Record) -> list[JsonLine]:
        """The lines of one record, without `ts` and `seq`. The first is always `thread.started`.

        Lines from before the start of the root or of a fan-out are held back until then;
        `run.completed` does not wait.
        """
        self._track_spending(record)
        if is_reviewer(record.agent):
            return []  # the assessment line reports a reviewer's result
        path = self._path_of(record)
        lines = self._run_lines(record)
        if lines is None:
            lines = self._agent_lines(record, path)
        lines = _with_agent(lines, path)
        if self._has_started:
            return lines
        self._early_lines += lines
        match record.body:
            case AgentSpawned(path="/root", agent_id=root_id):
                pass
            case FanOutPlanned(root_id=root_id) if root_id:
                pass
            case RunCompleted():
                root_id = ""
            case _:
                return []
        self._has_started = True
        first = [ThreadStartedLine(thread_id=root_id, run=self._run_id)] if root_id else []
        lines, self._early_lines = [*first, *self._early_lines], []
        return lines

    def transient_lines(self, feed: TransientEvent) -> list[JsonLine]:
        """Retries, waits and throttling, each written once until something else follows."""
        lines: list[JsonLine] = []
        if is_reviewer(feed.agent):
            return lines
        match feed.event:
            case Throttled() as event:
                text = event.reason if event.delay_s is not None else ""
                if text and text != self._throttle:
                    lines.append(WarningLine(message=text))
                self._throttle = text
            case Fetching() as event if event.have_bytes == event.total_bytes:
                if text := describe_fetching(event):
                    lines.append(WarningLine(message=text))
            case Waiting() as event:
                lines = self._agent(feed.agent).waiting_lines(event)
            case _:
                pass
        return _with_agent(lines, feed.agent) if self._has_started else []

    def _agent(self, path: str) -> JsonAgent:
        return self._agents.setdefault(path, JsonAgent(path))

    def _path_of(self, record: Record) -> str:
        """The agent that the record is about, for records of the run too."""
        if isinstance(record.body, AgentEnded | ProcessEnded | ResponseBilled):
            return self._paths.get(record.body.agent_id, record.agent)
        return record.agent

    def _run_lines(self, record: Record) -> list[JsonLine] | None:
        """Lines about the run; None if the record is about an agent."""
        if isinstance(record.body, PartRecord):
            return part_json_lines(record.body) or None
        match record.body:
            case RunStarted(run_id=run_id):
                self._run_id = run_id
                return []
            case ProviderChosen(provider=provider, model=model, why=why):
                return [ProviderLine(provider=provider, model=model, why=why)]
            case GatewayEnded(reason=reason):
                return [WarningLine(message=f"the gateway ended and is started again: {reason}")]
            case FanOutPlanned(items=items, role=role, concurrency=concurrency):
                self._fan_total = len(items)
                return [FanOutPlannedLine(total=len(items), role=role, concurrency=concurrency)]
            case FanOutItemEnded() as body:
                self._fan_done += body.state == "completed"
                self._fan_failed += body.state != "completed"
                line = FanOutItemLine(
                    agent=body.agent, index=body.index, item=body.item, state=body.state,
                    attempt=body.attempt, done=self._fan_done, failed=self._fan_failed,
                    total=self._fan_total,
                )  # fmt: skip
                return [line]
            case RateLimits(windows=found):
                return [RateLimitsLine(windows=tuple(map(_rate_limit, found)))]
            case RunIdle() as body:
                said = body.message or UNSET
                return [RunIdleLine(status=body.status, result=body.result, message=said)]
            case RunCompleted() as body:
                return self._run_completed(body)
            case _:
                return None

    def _agent_lines(self, record: Record, path: str) -> list[JsonLine]:
        body = record.body
        if isinstance(body, AgentSpawned):
            restarted = body.agent_id in self._paths
            self._paths[body.agent_id] = body.path
            return [self._agent(body.path).spawned_line(body, restarted=restarted)]
        if not path:
            return [WarningLine(message=body.message)] if isinstance(body, Warned) else []
        if isinstance(body, TurnDiff):
            return [turn_diff_line(body)]  # the agent's process may have ended
        agent = self._agent(path)
        if isinstance(body, TurnFailed) and path == ROOT_PATH:
            self._root_error = body.message
        if isinstance(body, ProcessEnded) and agent.has_ended:
            del self._agents[path]
        return agent.record_lines(record)

    def _run_completed(self, body: RunCompleted) -> list[JsonLine]:
        lines: list[JsonLine] = []
        for path, agent in sorted(self._agents.items()):
            lines += _with_agent(agent.close(), path)
        failed = body.status not in {"completed", "interrupted", "terminated"}
        if failed and body.message and body.message != self._root_error:
            lines.append(ErrorLine(message=body.message))
        has_budget = (self._budget.tokens, self._budget.usd, self._budget.requests) != (None,) * 3
        last = RunCompletedLine(
            status=body.status,
            result=body.result,
            usage=json_usage(body.usage),
            agents=body.agents or len(self._paths),
            run=self._run_id,
            message=body.message or UNSET,
            usd=body.usd,
            duration_s=body.duration_s,
            budget=self._budget.rounded() if has_budget else UNSET,
            review_usage=json_usage(self._review_usage) if self._reviews else UNSET,
            review_usd=self._review_usd if self._reviews else UNSET,
            redacted=body.redacted or UNSET,
            caution=body.caution or UNSET,
        )
        return [*lines, last]

    def _track_spending(self, record: Record) -> None:
        """Track the run's limits, what counts against them, and what reviews cost."""
        match record.body:
            case BudgetSet(budget=limits) as body if record.agent == ROOT_PATH:
                self._budget = BudgetUse(
                    tokens=limits.tokens, usd=limits.usd, requests=limits.requests,
                    used_tokens=body.spent_tokens, used_usd=body.spent_usd,
                    used_requests=body.spent_requests,
                )  # fmt: skip
            case ResponseBilled() as bill:
                self._budget = self._budget.plus(bill.usage.total_tokens, bill.usd, 1)
            case ReservationReleased() as bill:
                self._budget = self._budget.plus(bill.tokens, bill.usd, bill.requests)
            case Reviewed() as review:
                self._reviews += 1
                self._review_usage = self._review_usage.plus(review.usage)
                if review.usd is not None:
                    self._review_usd = (self._review_usd or 0.0) + review.usd
            case _:
                pass


def _rate_limit(window: LimitWindow) -> JsonRateLimit:
    return JsonRateLimit(
        name=window.name,
        used_percent=window.used_percent,
        window_minutes=window.window_minutes,
        resets_at_unix_s=window.resets_at_unix_s,
    )


def _with_agent(lines: Iterable[JsonLine], path: str) -> list[JsonLine]:
    """The same lines, with the agent's path unless they are about the run or the root."""
    if path in {"", ROOT_PATH}:
        return list(lines)
    return [msgspec.structs.replace(line, agent=path) for line in lines]
