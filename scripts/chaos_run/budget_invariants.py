"""Whether the budgets add up: what was reserved, billed, written off and counted. Pure."""

from collections import Counter
from collections.abc import Iterator

from run_evidence import RunEvidence

from swarm.mailbox.base.ids import is_reviewer
from swarm.mailbox.protocol.events import TokenCount
from swarm.mailbox.protocol.gateway import ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import Reserved, RunCompleted
from swarm.supervisor.parts.budget.ledger import fold_ledger


def budgets_add_up(facts: RunEvidence) -> Iterator[str]:
    """Each request is paid for once: nothing is forgotten, nothing is counted twice."""
    yield from _reservations(facts)
    yield from _totals(facts)
    ledger = fold_ledger(facts.records)
    if facts.ended_in_time and ledger.held:
        yield f"{len(ledger.held)} reservations were never settled"
    spent = ledger.spent()
    if spent.requests < facts.served:
        yield f"{facts.served} answers were given, and {spent.requests} requests are counted"
    counted = sum(r.body.last.total_tokens for r in facts.records if isinstance(r.body, TokenCount))
    if spent.tokens < counted:
        yield f"agents used {counted} tokens, and {spent.tokens} are counted"


def _reservations(facts: RunEvidence) -> Iterator[str]:
    made: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for record in facts.records:
        match record.body:
            case Reserved(reservation=name):
                made[name] += 1
            case ResponseBilled(reservation=name) | ReservationReleased(reservation=name) if name:
                ended[name] += 1
            case _:
                pass
    yield from (f"{name} was reserved {n} times" for name, n in made.items() if n > 1)
    yield from (f"{name} was settled {n} times" for name, n in ended.items() if n > 1)
    yield from (f"{name} was settled and never reserved" for name in ended if name not in made)


def _totals(facts: RunEvidence) -> Iterator[str]:
    """An agent's total grows by each response, over all its lives; the run's is their sum, but
    for responses whose bill was cut off by a kill: those count as reserved, and not as used."""
    totals: dict[str, TokenUsage] = {}
    counted = billed = lapsed = 0
    for record in facts.records:
        if is_reviewer(record.agent):
            continue  # each review begins again, and is counted beside the run
        match record.body:
            case TokenCount(last=last, total=total):
                before = totals.get(record.agent, TokenUsage())
                if total.total_tokens != before.total_tokens + last.total_tokens:
                    yield (
                        f"{record.agent} had {before.total_tokens} tokens, used "
                        f"{last.total_tokens}, and has {total.total_tokens} (record {record.seq})"
                    )
                totals[record.agent] = total
                counted += last.total_tokens
            case ResponseBilled(usage=usage):
                billed += usage.total_tokens
            case ReservationReleased(tokens=tokens):
                lapsed += tokens
            case RunCompleted(usage=usage) if not (
                counted - lapsed <= usage.total_tokens <= billed + lapsed
            ):
                yield (
                    f"the run counts {usage.total_tokens} tokens, its agents {counted}, the "
                    f"provider {billed} (record {record.seq})"
                )
            case _:
                pass
