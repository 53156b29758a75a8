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
TIGHT = 0.8  # the share of a bound from which agents are told
_NANO = 1_000_000_000
_FREE = Budget()


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


class Share(Value):
    """How far one bound of a subtree is used."""

    path: str
    unit: Unit
    used: float
    bound: float

    @property
    def portion(self) -> float:
        return self.used / self.bound if self.bound > 0 else 1.0


class Grant(Value):
    """It may be sent. `bounded` False: no bound holds for this agent, nothing was reserved."""

    bounded: bool = True
    last: bool = False


class Wait(Value):
    """It would fit, were it not for what others hold: ask again when something was settled."""


class Refusal(Value):
    """It does not fit. `ask_again`: one last request of this agent would be granted."""

    share: Share
    ask_again: bool


Verdict = Grant | Wait | Refusal


class Reservation(Value):
    """One grant under way."""

    agent_id: str
    path: str
    amount: Amount
    last: bool = False
    worked: bool = False  # the agent has had answers: it has something to sum up


class _Node:
    """A subtree whose costs are counted."""

    def __init__(self, path: str, bound: Budget) -> None:
        self.path, self.bound = path, bound
        self.had: set[Budget] = set()  # every bound it has or had: what was handed down
        self.spent = self.held = Amount()

    def shares(self, more: Amount, *, with_held: bool) -> Iterator[Share]:
        """Each bound and what would be used of it with `more`."""
        used = self.spent.plus(more)
        if with_held:
            used = used.plus(self.held)
        if (tokens := self.bound.tokens) is not None:
            yield Share(path=self.path, unit="tokens", used=used.tokens, bound=tokens)
        if (usd := self.bound.usd) is not None:
            yield Share(path=self.path, unit="dollars", used=used.nano_usd / _NANO, bound=usd)
        if (requests := self.bound.requests) is not None:
            yield Share(path=self.path, unit="requests", used=used.requests, bound=requests)


class Ledger:
    """All bounds of a run. The root's subtree is always counted, bounded or not."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {"/root": _Node("/root", _FREE)}
        self._held: dict[str, Reservation] = {}
        self._called: set[str] = set()  # agents that may have their last grant
        self._lasted: set[str] = set()  # agents that had it

    @property
    def is_bounded(self) -> bool:
        """True if any bound holds."""
        return any(node.bound != _FREE for node in self._nodes.values())

    @property
    def held(self) -> dict[str, Reservation]:
        """The grants under way, by reservation. Not to be changed."""
        return self._held

    def spent(self, path: str = "/root") -> Amount:
        """What a counted subtree has spent so far; nothing for one that is not counted."""
        node = self._nodes.get(path)
        return node.spent if node is not None else Amount()

    def under_way(self, path: str = "/root") -> Amount:
        """What is granted to a counted subtree and not yet billed."""
        node = self._nodes.get(path)
        return node.held if node is not None else Amount()

    def bind(self, path: str, budget: Budget) -> bool:
        """Set the bounds of a subtree; raising them later is the same call.

        A child's budget that one of its ancestors has or had is that ancestor's, handed down: it
        draws on that one and gets no account of its own. False if so, or if it bounds nothing.
        """
        node = self._nodes.get(path)
        if node is None and (
            budget == _FREE or any(budget in above.had for above in self._chain(path))
        ):
            return False
        if node is None:
            node = self._nodes[path] = _Node(path, budget)
        node.bound = budget
        if budget != _FREE:
            node.had.add(budget)
        return budget != _FREE

    def reserve(self, wanted: Reservation, name: str) -> Verdict:
        """Decide on one request, and hold its amount if it is granted.

        A last grant is for an agent that has something to sum up: one that was never answered is
        refused at once, so that a spent budget does not buy one request for each new agent.

        Args:
            wanted: The agent, its path and the estimate.
            name: Of the reservation; unique in the run.
        """
        agent_id = wanted.agent_id
        nodes = [node for node in self._chain(wanted.path) if node.bound != _FREE]
        if not nodes:
            return Grant(bounded=False)
        over = _first_over(nodes, wanted.amount, with_held=True)
        if over is None:
            self.hold(wanted, name)
            return Grant()
        if (spent_over := _first_over(nodes, wanted.amount, with_held=False)) is None:
            return Wait()
        if agent_id in self._called and agent_id not in self._lasted:
            self.hold(msgspec.structs.replace(wanted, last=True), name)
            return Grant(last=True)
        may_ask = wanted.worked and agent_id not in self._lasted
        if may_ask:
            self._called.add(agent_id)
        now = next(
            share
            for node in nodes
            if node.path == spent_over.path
            for share in node.shares(Amount(), with_held=False)
            if share.unit == spent_over.unit
        )
        return Refusal(share=now, ask_again=may_ask)

    def hold(self, granted: Reservation, name: str) -> None:
        """Note a grant, unconditionally: also one that the journal tells of."""
        self._held[name] = granted
        if granted.last:
            self._called.add(granted.agent_id)
            self._lasted.add(granted.agent_id)
        else:  # there is room again: it may have a last grant again, when there is none
            self._called.discard(granted.agent_id)
            self._lasted.discard(granted.agent_id)
        for node in self._chain(granted.path):
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
        for node in self._chain(path if before is None else before.path):
            node.spent = node.spent.plus(cost)
            if before is not None:
                node.held = node.held.minus(before.amount)
        return True

    def tightest(self, path: str) -> Share | None:
        """The bound over this path that is used most, if that is 80 % or more; grants count."""
        shares = [
            share
            for node in self._chain(path)
            if node.bound != _FREE
            for share in node.shares(Amount(), with_held=True)
        ]
        worst = max(shares, key=lambda share: share.portion, default=None)
        return worst if worst is not None and worst.portion >= TIGHT else None

    def _chain(self, path: str) -> list[_Node]:
        """The counted subtrees that hold this path, from the root down.

        Reviews are paid by the run as a whole.
        """
        path = ROOT_PATH if is_reviewer(path) else path
        found: list[_Node] = []
        end = 0
        while end < len(path):
            end = path.find("/", end + 1)
            end = len(path) if end < 0 else end
            if (node := self._nodes.get(path[:end])) is not None:
                found.append(node)
        return found


def _first_over(nodes: list[_Node], more: Amount, *, with_held: bool) -> Share | None:
    """The first bound that would be passed."""
    for node in nodes:
        for share in node.shares(more, with_held=with_held):
            if share.used > share.bound:
                return share
    return None
