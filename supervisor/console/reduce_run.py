"""Reduce the run's own figures: (view, event, time) → view. No I/O."""

from sys import intern

from msgspec.structs import replace

from swarm.mailbox.protocol.control import RunView
from swarm.mailbox.protocol.events import TokenCount, Warned
from swarm.mailbox.protocol.gateway import RateLimits, ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.limits import Budget
from swarm.mailbox.protocol.records import (
    AnyRecordBody,
    FanOutPlanned,
    GatewayEnded,
    ProviderChosen,
    RunCompleted,
    RunStarted,
)

from .safe_text import clean_line


def reduce_run(run: RunView, body: AnyRecordBody, at: float) -> RunView:
    """Apply a record to the figures of the run; the agents are not considered.

    A resume sets `started` again: ages and rates count from there.
    """
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
        case ProviderChosen(provider=provider, model=model, why=why):
            words = clean_line(provider), clean_line(model), clean_line(why)
            return replace(run, provider=words[0], model=words[1], why=words[2], fetching="")
        case TokenCount(last=last):
            return replace(run, usage=run.usage.plus(last))
        case RateLimits(windows=windows):
            return replace(run, rate_limits=windows)
        case ResponseBilled() | ReservationReleased():
            return _billed(run, body)
        case Warned() | GatewayEnded():
            return replace(run, warnings=run.warnings + 1)
        case FanOutPlanned(items=items):
            return replace(run, fan_total=len(items), fan_done=0, fan_failed=0)
        case RunCompleted():
            usage = body.usage if body.usage.total_tokens else run.usage
            usd = run.usd if body.usd is None else body.usd
            return replace(run, status=body.status, usage=usage, usd=usd, throttle="")
        case _:
            return run


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
