"""The ledger: what every bounded subtree has spent, what is granted and under way, what is left.

Rule guarded: `spent + held` of a subtree never passes its bound by a grant, but for one last grant
an agent; and a bill that is higher than its estimate narrows what comes after it. Pure: no clock,
no post, no journal; a reservation is checked and held in one step.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from swarm.mailbox.ids import ROOT_PATH, is_reviewer
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import Budget

Unit = Literal["tokens", "dollars", "requests"]
WARN_AT = 0.8  # the share of a bound from which agents are told
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
    """An unknown price counts as nothing: such requests are bounded by tokens and number alone."""
    return Amount(tokens=tokens, nano_usd=round((usd or 0.0) * _NANO), requests=requests)


class BudgetUsage(Value):
    """How far one bound of a subtree is used."""

    path: str
    unit: Unit
    used: float
    bound: float

    @property
    def used_fraction(self) -> float:
        return self.used / self.bound if self.bound > 0 else 1.0


class BudgetGrant(Value):
    """It may be sent. `bounded` False: no bound holds for this agent, nothing was reserved."""

    bounded: bool = True
    last: bool = False


class BudgetWait(Value):
    """It would fit, were it not for what others hold: ask again when something was settled."""


class BudgetRefusal(Value):
    """It does not fit. `ask_again`: one last request of this agent would be granted."""

    share: BudgetUsage
    ask_again: bool


BudgetDecision = BudgetGrant | BudgetWait | BudgetRefusal


class BudgetReservation(Value):
    """One grant under way."""

    agent_id: str
    path: str
    amount: Amount
    last: bool = False
    worked: bool = False  # the agent has had answers: it has something to sum up


class _Account:
    """A subtree whose costs are counted."""

    def __init__(self, path: str, bound: Budget) -> None:
        self.path, self.bound = path, bound
        self.past_limits: set[Budget] = set()  # every bound it has or had: what was handed down
        self.spent = self.held = Amount()

    def usages(self, more: Amount, *, with_held: bool) -> Iterator[BudgetUsage]:
        """Each bound and what would be used of it with `more`."""
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
    """All bounds of a run. The root's subtree is always counted, bounded or not."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {"/root": _Account("/root", _UNLIMITED)}
        self._held: dict[str, BudgetReservation] = {}
        self._may_have_last: set[str] = set()  # agents that may have their last grant
        self._had_last: set[str] = set()  # agents that had it

    @property
    def is_bounded(self) -> bool:
        """True if any bound holds."""
        return any(node.bound != _UNLIMITED for node in self._accounts.values())

    @property
    def held(self) -> dict[str, BudgetReservation]:
        """The grants under way, by reservation. Not to be changed."""
        return self._held

    def spent(self, path: str = "/root") -> Amount:
        """What a counted subtree has spent so far; nothing for one that is not counted."""
        node = self._accounts.get(path)
        return node.spent if node is not None else Amount()

    def held_amount(self, path: str = "/root") -> Amount:
        """What is granted to a counted subtree and not yet billed."""
        node = self._accounts.get(path)
        return node.held if node is not None else Amount()

    def set_limits(self, path: str, budget: Budget) -> bool:
        """Set the bounds of a subtree; raising them later is the same call.

        A child's budget that one of its ancestors has or had is that ancestor's, handed down: it
        draws on that one and gets no account of its own. False if so, or if it bounds nothing.
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

        A last grant is for an agent that has something to sum up: one that was never answered is
        refused at once, so that a spent budget does not buy one request for each new agent.

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
        """Note a grant, unconditionally: also one that the journal tells of."""
        self._held[name] = granted
        if granted.last:
            self._may_have_last.add(granted.agent_id)
            self._had_last.add(granted.agent_id)
        else:  # there is room again: it may have a last grant again, when there is none
            self._may_have_last.discard(granted.agent_id)
            self._had_last.discard(granted.agent_id)
        for node in self._accounts_over(granted.path):
            node.held = node.held.plus(granted.amount)

    def settle(self, name: str, path: str, cost: Amount) -> bool:
        """A request ended: what it held is free, what it cost is spent.

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
        """The bound over this path that is used most, if that is 80 % or more; grants count."""
        shares = [
            share
            for node in self._accounts_over(path)
            if node.bound != _UNLIMITED
            for share in node.usages(Amount(), with_held=True)
        ]
        worst = max(shares, key=lambda share: share.used_fraction, default=None)
        return worst if worst is not None and worst.used_fraction >= WARN_AT else None

    def _accounts_over(self, path: str) -> list[_Account]:
        """The counted subtrees that hold this path, from the root down.

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
    """The first bound that would be passed."""
    for node in nodes:
        for share in node.usages(more, with_held=with_held):
            if share.used > share.bound:
                return share
    return None
