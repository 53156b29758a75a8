"""Budget service: answers the gateway's reservations from the ledger and notifies agents.

A grant is journaled before it is sent, so that after any crash the requests in progress count as
spent. Decisions wait for nothing; a request that only others' grants keep out is queued.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.gateway import (
    AnyGatewayOp,
    Granted,
    NotGranted,
    RequireReservations,
    ReservationReleased,
    Reserve,
    ResponseBilled,
    encode_gateway_op,
)
from swarm.mailbox.protocol.ops import Notice
from swarm.mailbox.protocol.records import BudgetSet, Record, Reserved
from swarm.mailbox.protocol.values.limits import Budget

from ...agents.agent_record import Agent
from ...context.run_context import RunContext
from .budget_texts import budget_notice, budget_used_up_text, budget_warning
from .ledger import (
    BudgetGrant,
    BudgetRefusal,
    BudgetReservation,
    BudgetUsage,
    BudgetWait,
    Ledger,
    amount_of,
    cost_of,
)

_NOTICE_LIMIT_S = 5.0
_SWITCH_LIMIT_S = 2.0


class _WaitingReserve(NamedTuple):
    """A reservation that waits, and the gateway that asked."""

    event: Reserve
    path: str
    gateway: bytes


class BudgetService:
    """One per run. `run` delivers the decisions; of all other methods only `admit` waits."""

    def __init__(self, running: RunContext, ledger: Ledger) -> None:
        self._run, self._ledger = running, ledger
        self._waiting: list[_WaitingReserve] = []
        self._answers: deque[tuple[bytes, AnyGatewayOp]] = deque()
        self._notices: deque[tuple[Agent, Notice]] = deque()
        self._work = trio.Event()
        self._gateway = b""
        self._gateway_asks = False  # the present gateway asks before each request
        self._notified: set[tuple[str, bytes]] = set()  # (limited path, agent process identity)
        self._warned: set[tuple[str, str]] = set()  # (limited path, unit): people were warned
        self._unpriced = False

    @property
    def ledger(self) -> Ledger:
        """For people and tests; only this service changes it."""
        return self._ledger

    # --- starts -------------------------------------------------------------------------------

    def open_budget(self, budget: Budget, *, deadline_unix_s: float | None) -> None:
        """At the start of a run or a resume: set today's limits; unbilled grants count as spent."""
        self._write_off("the run ended before it was billed")
        self._ledger.set_limits(ROOT_PATH, budget)
        if budget != Budget() or deadline_unix_s is not None:
            self._run.note(self._budget_record(ROOT_PATH, budget, deadline_unix_s), agent=ROOT_PATH)

    def on_gateway_start(self, identity: bytes) -> bool:
        """A gateway is about to start. True if it must ask before each request from the start."""
        self._gateway, self._gateway_asks = identity, self._ledger.is_bounded
        return self._gateway_asks

    def on_gateway_end(self) -> None:
        """The gateway's process ended: its requests in progress count as spent."""
        self._gateway = b""  # its late messages reserve nothing
        self._waiting.clear()
        self._answers.clear()
        self._write_off("the gateway ended before it was billed")

    async def admit(self, path: str, budget: Budget) -> None:
        """Set the limits of an agent that is about to start; they hold on return.

        Call it before the agent's process is started. It costs nothing unless the agent's subtree
        has limits of its own.
        """
        if path == ROOT_PATH or not self._ledger.set_limits(path, budget):
            return
        self._run.note(self._budget_record(path, budget, None), agent=path)
        if not self._gateway_asks:
            self._gateway_asks = True
            body = encode_gateway_op(RequireReservations())
            with trio.move_on_after(_SWITCH_LIMIT_S):
                try:
                    seq = await self._run.mailbox.post(self._gateway, body)
                    await self._run.mailbox.wait_acknowledged(self._gateway, seq)
                except PeerGone:
                    return  # the next one asks from its start

    def _budget_record(self, path: str, budget: Budget, deadline_unix_s: float | None) -> BudgetSet:
        spent = self._ledger.spent(path)
        return BudgetSet(
            budget=budget,
            deadline_unix_s=deadline_unix_s,
            spent_tokens=spent.tokens,
            spent_usd=spent.nano_usd / 1e9,
            spent_requests=spent.requests,
        )

    def forget_agent(self, agent: Agent) -> None:
        """Its process has ended. Whether it had its last grant stays in the ledger."""
        self._notified = {entry for entry in self._notified if entry[1] != agent.identity}

    # --- gateway messages ---------------------------------------------------------------------

    def on_reserve(self, event: Reserve, path: str, done: Callable[[], None]) -> None:
        """Decide whether this request may be sent. `done` acknowledges once the answer is safe."""
        asked = _WaitingReserve(event, path, self._gateway)
        if not self._gateway:
            done()
        elif not path:
            self._answer(asked, NotGranted(reservation=event.reservation, reason="it has ended"))
            done()
        elif not self._decide(asked, done):
            self._waiting.append(asked)
            done()

    def on_bill(
        self, bill: ResponseBilled | ReservationReleased, path: str, journal: Callable[[], None]
    ) -> bool:
        """A request ended. `journal` is called if this changes the ledger, before others profit.

        Returns False if it changes nothing.
        """
        waiting = next((n for n in self._waiting if n.event.reservation == bill.reservation), None)
        if waiting is not None and bill.reservation:
            self._waiting.remove(waiting)
            return False
        changed = self._ledger.settle(bill.reservation, path or ROOT_PATH, cost_of(bill))
        if changed:
            journal()
            self._add_spending(bill)
            self._retry_waiting()
            self._warn_if_tight(path or ROOT_PATH)
        return changed

    def _add_spending(self, bill: ResponseBilled | ReservationReleased) -> None:
        """Add the price to the agent's spending, which outlasts its process."""
        if isinstance(bill, ResponseBilled):
            for agent in self._run.agents.live.values():
                if agent.plan.agent_id == bill.agent_id:
                    agent.pay(bill.usd)

    def _decide(self, asked: _WaitingReserve, done: Callable[[], None]) -> bool:
        """Answer, or return False if the request has to wait."""
        event = asked.event
        self._check_price(event)
        wanted = BudgetReservation(
            agent_id=event.agent_id,
            path=asked.path,
            amount=amount_of(event.tokens, event.usd),
            worked=event.worked,
        )
        match self._ledger.reserve(wanted, event.reservation):
            case BudgetGrant(bounded=False):
                self._answer(asked, Granted(reservation=event.reservation, bounded=False))
                done()
            case BudgetGrant(last=last):
                self._warn_if_tight(asked.path)
                self._grant(asked, done, last=last)
            case BudgetRefusal(share=share, ask_again=ask_again):
                no = NotGranted(
                    reservation=event.reservation,
                    reason=budget_used_up_text(share),
                    ask_again=ask_again,
                )
                self._answer(asked, no)
                done()
            case BudgetWait():
                return False
        return True

    def _grant(self, asked: _WaitingReserve, done: Callable[[], None], *, last: bool) -> None:
        event = asked.event

        def written(record: Record) -> None:
            self._run.broadcast.publish_record(record)
            done()
            self._answer(asked, Granted(reservation=event.reservation, last=last))

        reserved = Reserved(
            agent_id=event.agent_id,
            reservation=event.reservation,
            tokens=event.tokens,
            usd=event.usd,
            last=last,
        )
        self._run.journal.write(reserved, agent=asked.path, then=written)

    def _retry_waiting(self) -> None:
        """Amounts came free: decide again on all waiting requests, in order."""
        waiting, self._waiting = self._waiting, []
        for asked in waiting:
            if not self._decide(asked, lambda: None):
                self._waiting.append(asked)

    def _check_price(self, event: Reserve) -> None:
        bound = self._run.request.budget.usd
        if event.usd is None and bound is not None and not self._unpriced:
            self._unpriced = True
            self._run.note(
                Warned(
                    message="the price of a model of this run is not known: its requests do not "
                    "count against the budget in dollars; add it to models.toml, or bound tokens"
                )
            )

    def _write_off(self, reason: str) -> None:
        for name, held in tuple(self._ledger.held.items()):
            lapsed = ReservationReleased(
                agent_id=held.agent_id,
                reservation=name,
                tokens=held.amount.tokens,
                usd=held.amount.nano_usd / 1e9,
                requests=held.amount.requests,
                reason=reason,
            )
            self._ledger.settle(name, held.path, cost_of(lapsed))
            self._run.note(lapsed, agent=held.path)

    # --- notices ------------------------------------------------------------------------------

    def _warn_if_tight(self, path: str) -> None:
        """From 80 % on: tell every agent below the limit once, and people once."""
        share = self._ledger.most_used(path)
        if share is None:
            return
        if (share.path, share.unit) not in self._warned:
            self._warned.add((share.path, share.unit))
            self._run.note(Warned(message=budget_warning(share)))
        for agent in self._run.agents.live.values():
            self._warn_agent(agent, share)

    def _warn_agent(self, agent: Agent, share: BudgetUsage) -> None:
        within = agent.path == share.path or agent.path.startswith(share.path + "/")
        mark = (share.path, agent.identity)
        if within and mark not in self._notified and agent.process.hello.is_set():
            self._notified.add(mark)
            self.notify(agent, budget_notice(share))

    def notify(self, agent: Agent, text: str) -> None:
        """Put a notice before the agent's next request. Never waits."""
        self._notices.append((agent, Notice(notice_id=self._run.entropy.new_id(), text=text)))
        self._work.set()

    def _answer(self, asked: _WaitingReserve, op: AnyGatewayOp) -> None:
        self._answers.append((asked.gateway, op))
        self._work.set()

    async def run(self) -> None:
        """Deliver answers and notices, in order, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._work.wait()
                self._work = trio.Event()
                while self._notices:
                    nursery.start_soon(self._send_notice, *self._notices.popleft())
                while self._answers:
                    gateway, op = self._answers.popleft()
                    try:
                        await self._run.mailbox.post(gateway, encode_gateway_op(op))
                    except PeerGone:
                        continue  # it is replaced, and what it held is written off

    async def _send_notice(self, agent: Agent, notice: Notice) -> None:
        with trio.move_on_after(_NOTICE_LIMIT_S):
            try:
                await self._run.send(agent, notice)
            except PeerGone:
                return
