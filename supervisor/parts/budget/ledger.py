"""The budget ledger: what every limited subtree has spent, holds and has left. Pure.

No grant makes a subtree's `spent + held` exceed its limit, except one last grant per agent. A bill
above its estimate leaves less for later requests. A reservation is checked and held in one step;
there is no clock, no mailbox and no journal here.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from swarm.mailbox.base.ids import ROOT_PATH, is_reviewer
from swarm.mailbox.protocol.gateway import ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.records import AgentSpawned, BudgetSet, Record, Reserved
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import Budget

Unit = Literal["tokens", "dollars", "requests"]
WARN_AT = 0.8  # the share of a limit from which agents are warned
_NANO = 1_000_000_000
_UNLIMITED = Budget()


class Amount(Value):
    """What something costs. Dollars are counted in whole billionths, so that sums are exact."""

    tokens: int = 0
    nano_usd: int = 0
    requests: int = 0

    def plus(self, other: "Amount") -> "Amount":
        return Amount(
            tokens=self.tokens + other.tokens,
            nano_usd=self.nano_usd + other.nano_usd,
            requests=self.requests + other.requests,
        )

    def minus(self, other: "Amount") -> "Amount":
        return Amount(
            tokens=self.tokens - other.tokens,
            nano_usd=self.nano_usd - other.nano_usd,
            requests=self.requests - other.requests,
        )


def amount_of(tokens: int, usd: float | None, requests: int = 1) -> Amount:
    """An unknown price counts as 0: such requests are limited by tokens and number alone."""
    return Amount(tokens=tokens, nano_usd=round((usd or 0.0) * _NANO), requests=requests)


class BudgetUsage(Value):
    """How much of one limit of a subtree is used."""

    path: str
    unit: Unit
    used: float
    bound: float

    @property
    def used_fraction(self) -> float:
        return self.used / self.bound if self.bound > 0 else 1.0


class BudgetGrant(Value):
    """It may be sent. `bounded` False: this agent has no limit, nothing was reserved."""

    bounded: bool = True
    last: bool = False


class BudgetWait(Value):
    """It would fit without others' grants: ask again when one was settled."""


class BudgetRefusal(Value):
    """It does not fit. `ask_again`: one last request of this agent would be granted."""

    share: BudgetUsage
    ask_again: bool


BudgetDecision = BudgetGrant | BudgetWait | BudgetRefusal


class BudgetReservation(Value):
    """One grant in progress."""

    agent_id: str
    path: str
    amount: Amount
    last: bool = False
    worked: bool = False  # the agent has had responses, so it has something to sum up


class _Account:
    """A subtree whose costs are counted."""

    def __init__(self, path: str, bound: Budget) -> None:
        self.path, self.bound = path, bound
        self.past_limits: set[Budget] = set()  # every limit it has or had: what was handed down
        self.spent = self.held = Amount()

    def usages(self, more: Amount, *, with_held: bool) -> Iterator[BudgetUsage]:
        """Each limit and how much of it would be used with `more`."""
        used = self.spent.plus(more)
        if with_held:
            used = used.plus(self.held)
        if (tokens := self.bound.tokens) is not None:
            yield BudgetUsage(path=self.path, unit="tokens", used=used.tokens, bound=tokens)
        if (usd := self.bound.usd) is not None:
            yield BudgetUsage(path=self.path, unit="dollars", used=used.nano_usd / _NANO, bound=usd)
        if (requests := self.bound.requests) is not None:
            yield BudgetUsage(path=self.path, unit="requests", used=used.requests, bound=requests)


class Ledger:
    """All limits of a run. The root's subtree is always counted, limited or not."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {"/root": _Account("/root", _UNLIMITED)}
        self._held: dict[str, BudgetReservation] = {}
        self._may_have_last: set[str] = set()  # agents that may have their last grant
        self._had_last: set[str] = set()  # agents that had it

    @property
    def is_bounded(self) -> bool:
        """True if any limit holds."""
        return any(node.bound != _UNLIMITED for node in self._accounts.values())

    @property
    def held(self) -> dict[str, BudgetReservation]:
        """The grants in progress, by reservation. Callers must not change it."""
        return self._held

    def spent(self, path: str = "/root") -> Amount:
        """What a counted subtree has spent so far; zero for one that is not counted."""
        node = self._accounts.get(path)
        return node.spent if node is not None else Amount()

    def held_amount(self, path: str = "/root") -> Amount:
        """What is granted to a counted subtree and not yet billed."""
        node = self._accounts.get(path)
        return node.held if node is not None else Amount()

    def set_limits(self, path: str, budget: Budget) -> bool:
        """Set the limits of a subtree, also to raise them later.

        A child's budget that equals one an ancestor has or had is that ancestor's, handed down: the
        child draws on it and gets no account of its own. Returns False then, or if the budget
        limits nothing.
        """
        node = self._accounts.get(path)
        if node is None and (
            budget == _UNLIMITED
            or any(budget in above.past_limits for above in self._accounts_over(path))
        ):
            return False
        if node is None:
            node = self._accounts[path] = _Account(path, budget)
        node.bound = budget
        if budget != _UNLIMITED:
            node.past_limits.add(budget)
        return budget != _UNLIMITED

    def reserve(self, wanted: BudgetReservation, name: str) -> BudgetDecision:
        """Decide on one request, and hold its amount if it is granted.

        Only an agent that has something to sum up gets a last grant: one that never had a response
        is refused at once, so that a spent budget does not buy one request for each new agent.

        Args:
            wanted: The agent, its path and the estimate.
            name: Of the reservation; unique in the run.
        """
        agent_id = wanted.agent_id
        nodes = [node for node in self._accounts_over(wanted.path) if node.bound != _UNLIMITED]
        if not nodes:
            return BudgetGrant(bounded=False)
        over = _first_exceeded(nodes, wanted.amount, with_held=True)
        if over is None:
            self.hold(wanted, name)
            return BudgetGrant()
        if (spent_over := _first_exceeded(nodes, wanted.amount, with_held=False)) is None:
            return BudgetWait()
        if agent_id in self._may_have_last and agent_id not in self._had_last:
            self.hold(msgspec.structs.replace(wanted, last=True), name)
            return BudgetGrant(last=True)
        may_ask = wanted.worked and agent_id not in self._had_last
        if may_ask:
            self._may_have_last.add(agent_id)
        now = next(
            share
            for node in nodes
            if node.path == spent_over.path
            for share in node.usages(Amount(), with_held=False)
            if share.unit == spent_over.unit
        )
        return BudgetRefusal(share=now, ask_again=may_ask)

    def hold(self, granted: BudgetReservation, name: str) -> None:
        """Hold a grant unconditionally; also used for grants read from the journal."""
        self._held[name] = granted
        if granted.last:
            self._may_have_last.add(granted.agent_id)
            self._had_last.add(granted.agent_id)
        else:  # there is room again: it may have another last grant later
            self._may_have_last.discard(granted.agent_id)
            self._had_last.discard(granted.agent_id)
        for node in self._accounts_over(granted.path):
            node.held = node.held.plus(granted.amount)

    def settle(self, name: str, path: str, cost: Amount) -> bool:
        """A request ended: release what it held, add what it cost.

        Args:
            name: Of the reservation; "" = nothing was reserved, the cost is only added.
            path: Who pays if nothing was reserved.
            cost: May be higher than what was held.

        Returns False if it changed nothing: this reservation was settled before.
        """
        before = self._held.pop(name, None)
        if name and before is None:
            return False
        for node in self._accounts_over(path if before is None else before.path):
            node.spent = node.spent.plus(cost)
            if before is not None:
                node.held = node.held.minus(before.amount)
        return True

    def most_used(self, path: str) -> BudgetUsage | None:
        """The most used limit over this path, if 80 % or more is used; grants count."""
        shares = [
            share
            for node in self._accounts_over(path)
            if node.bound != _UNLIMITED
            for share in node.usages(Amount(), with_held=True)
        ]
        worst = max(shares, key=lambda share: share.used_fraction, default=None)
        return worst if worst is not None and worst.used_fraction >= WARN_AT else None

    def _accounts_over(self, path: str) -> list[_Account]:
        """The counted subtrees that contain this path, from the root down.

        Reviews are paid by the run as a whole.
        """
        path = ROOT_PATH if is_reviewer(path) else path
        found: list[_Account] = []
        end = 0
        while end < len(path):
            end = path.find("/", end + 1)
            end = len(path) if end < 0 else end
            if (node := self._accounts.get(path[:end])) is not None:
                found.append(node)
        return found


def _first_exceeded(nodes: list[_Account], more: Amount, *, with_held: bool) -> BudgetUsage | None:
    """The first limit that would be exceeded."""
    for node in nodes:
        for share in node.usages(more, with_held=with_held):
            if share.used > share.bound:
                return share
    return None


class LedgerFold:
    """Folds the supervisor's own records, in order of seq, into `ledger`."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._paths: dict[str, str] = {}

    def take(self, record: Record) -> None:
        match record.body:
            case BudgetSet(budget=budget):
                self.ledger.set_limits(record.agent or ROOT_PATH, budget)
            case AgentSpawned(agent_id=agent_id, path=path, limits=limits):
                self._paths[agent_id] = path
                if path != ROOT_PATH:
                    self.ledger.set_limits(path, limits.budget)
            case Reserved() as body:
                granted = BudgetReservation(
                    agent_id=body.agent_id,
                    path=self._paths.get(body.agent_id, record.agent) or ROOT_PATH,
                    amount=amount_of(body.tokens, body.usd),
                    last=body.last,
                )
                self.ledger.hold(granted, body.reservation)
            case ResponseBilled() | ReservationReleased() as body:
                path = self._paths.get(body.agent_id, record.agent) or ROOT_PATH
                self.ledger.settle(body.reservation, path, cost_of(body))
            case _:
                pass


def fold_ledger(records: Iterable[Record]) -> Ledger:
    """Fold the supervisor's own records, in order of seq."""
    fold = LedgerFold()
    for record in records:
        fold.take(record)
    return fold.ledger


def cost_of(bill: ResponseBilled | ReservationReleased) -> Amount:
    """The amount that a bill adds to what is spent."""
    if isinstance(bill, ReservationReleased):
        return amount_of(bill.tokens, bill.usd, bill.requests)
    return amount_of(bill.usage.total_tokens, bill.usd)
