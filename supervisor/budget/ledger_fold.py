"""Folds records into a ledger: what a resumed run has spent. Pure.

Grants that were never billed stay held after the fold. Who opens the run writes them off as spent
(`ReservationReleased`), because what the provider charged is unknown.
"""

from collections.abc import Iterable

from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.gateway import ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.records import AgentSpawned, BudgetSet, Record, Reserved

from .ledger import Amount, BudgetReservation, Ledger, amount_of


def fold_ledger(records: Iterable[Record]) -> Ledger:
    """Fold the supervisor's own records, in order of seq."""
    ledger = Ledger()
    paths: dict[str, str] = {}
    for record in records:
        match record.body:
            case BudgetSet(budget=budget):
                ledger.set_limits(record.agent or ROOT_PATH, budget)
            case AgentSpawned(agent_id=agent_id, path=path, limits=limits):
                paths[agent_id] = path
                if path != ROOT_PATH:
                    ledger.set_limits(path, limits.budget)
            case Reserved() as body:
                granted = BudgetReservation(
                    agent_id=body.agent_id,
                    path=paths.get(body.agent_id, record.agent) or ROOT_PATH,
                    amount=amount_of(body.tokens, body.usd),
                    last=body.last,
                )
                ledger.hold(granted, body.reservation)
            case ResponseBilled() | ReservationReleased() as body:
                path = paths.get(body.agent_id, record.agent) or ROOT_PATH
                ledger.settle(body.reservation, path, cost_of(body))
            case _:
                pass
    return ledger


def cost_of(bill: ResponseBilled | ReservationReleased) -> Amount:
    """The amount that a bill adds to what is spent."""
    if isinstance(bill, ReservationReleased):
        return amount_of(bill.tokens, bill.usd, bill.requests)
    return amount_of(bill.usage.total_tokens, bill.usd)
