"""The state that JSON lines need from earlier records."""

from msgspec import UNSET, UnsetType

from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.gateway import ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.limits import Budget
from swarm.mailbox.protocol.records import BudgetSet, Record, Reviewed

from .json_items import OpenItems
from .json_lines import AnyLine, BudgetUse


class JsonAgent:
    """What later lines of one agent need."""

    def __init__(self) -> None:
        self.items = OpenItems()
        self.total = TokenUsage()
        self.context_tokens = self.context_window = 0
        self.usd: float | None = None
        self.notice = ""  # the last notice, so that it is written once
        self.ended = False


class JsonState:
    """The state of one stream: small for each ended agent, more for agents with a process."""

    def __init__(self) -> None:
        self.run_id = ""
        self.started = False  # `thread.started` was written
        self.early_lines: list[AnyLine] = []  # lines held back until then
        self.agents: dict[str, JsonAgent] = {}
        self.paths: dict[str, str] = {}  # agent id → path
        self.spawned = 0
        self.root_error = ""
        self.throttle = ""
        self.fan_total = self.fan_done = self.fan_failed = 0
        self.budget = Budget()
        self.drawn_tokens = self.drawn_requests = 0
        self.drawn_usd = 0.0
        self.reviews = 0
        self.review_usage = TokenUsage()
        self.review_usd: float | None = None

    def agent(self, path: str) -> JsonAgent:
        return self.agents.setdefault(path, JsonAgent())

    def track_budget(self, record: Record) -> None:
        """Track the budget: the run's limits and what counts against them."""
        match record.body:
            case BudgetSet() as body if record.agent == ROOT_PATH:
                self.budget = body.budget
                self.drawn_tokens, self.drawn_usd = body.spent_tokens, body.spent_usd
                self.drawn_requests = body.spent_requests
            case ResponseBilled() as bill:
                self._add(bill.usage.total_tokens, bill.usd, 1)
            case ReservationReleased() as bill:
                self._add(bill.tokens, bill.usd, bill.requests)
            case Reviewed() as review:
                self.reviews += 1
                self.review_usage = self.review_usage.plus(review.usage)
                if review.usd is not None:
                    self.review_usd = (self.review_usd or 0.0) + review.usd
            case _:
                pass

    def _add(self, tokens: int, usd: float | None, requests: int) -> None:
        self.drawn_tokens += tokens
        self.drawn_usd += usd or 0.0
        self.drawn_requests += requests

    def budget_use(self) -> BudgetUse | UnsetType:
        """The run's limits and use at its end; unset if no limit holds."""
        if self.budget == Budget():
            return UNSET
        return BudgetUse(
            tokens=self.budget.tokens,
            usd=self.budget.usd,
            requests=self.budget.requests,
            used_tokens=self.drawn_tokens,
            used_usd=round(self.drawn_usd, 9),
            used_requests=self.drawn_requests,
        )
