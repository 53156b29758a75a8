"""Describe budgets: grants for the log, and the used shares for the footer. No I/O."""

from swarm.mailbox.protocol.control import RunView
from swarm.mailbox.protocol.gateway import LimitWindow, ReservationReleased
from swarm.mailbox.protocol.records import BudgetSet, Reserved
from swarm.mailbox.protocol.values.limits import Budget

from ..base.number_format import render_count, render_span, render_usd
from ..base.safe_text import clean_line

SHOWN_FROM_PERCENT = 25.0  # of a rate-limit window in the footer; the log shows all
WARNING_SHARE = 0.8  # from this share on it is a warning


def describe_budget_record(body: BudgetSet | Reserved | ReservationReleased) -> str:
    match body:
        case BudgetSet(budget=budget):
            return describe_budget(budget) or "no bound but time"
        case Reserved():
            kind = "last grant" if body.last else "granted"
            return f"{body.reservation} {kind}: up to {_cost(body.tokens, body.usd)}"
        case ReservationReleased():
            why = f" ({body.reason})" if body.reason else ""
            return f"{body.reservation} counts as {_cost(body.tokens, body.usd or None)}{why}"


def describe_widening(widened: tuple[str, ...]) -> str:
    """The note in a run's first line if its task file asked for more than the person configured."""
    return f" [the task file, which you trusted, widens: {', '.join(widened)}]" if widened else ""


def describe_budget(budget: Budget) -> str:
    """The limits of a budget: `50k tokens, $2.00, 40 requests`."""
    parts = [] if budget.tokens is None else [f"{render_count(budget.tokens)} tokens"]
    parts += [] if budget.usd is None else [render_usd(budget.usd)]
    parts += [] if budget.requests is None else [f"{budget.requests} requests"]
    return ", ".join(parts)


def budget_parts(view: RunView, *, now: float) -> list[tuple[str, bool]]:
    """For each limit of the run: the used share, and whether little is left."""
    budget = view.budget
    parts: list[tuple[str, bool]] = []
    if budget.tokens is not None:
        text = f"of {render_count(budget.tokens)} tokens"
        parts.append(_part(view.drawn_tokens / max(budget.tokens, 1), text))
    if budget.usd is not None:
        spent = view.usd or 0.0
        text = f"{render_usd(spent)} of {render_usd(budget.usd)}"
        share = spent / (budget.usd or 1.0)
        parts.append((f"{text} ({share * 100:.0f}%)", share >= WARNING_SHARE))
    if budget.requests is not None:
        share = view.drawn_requests / max(budget.requests, 1)
        parts.append(_part(share, f"of {budget.requests} requests"))
    if view.deadline_unix_s is not None and view.status in {"running", "idle"}:
        left_s = max(0.0, view.deadline_unix_s - now)
        whole_s = view.deadline_unix_s - view.started
        late = left_s < (1 - WARNING_SHARE) * whole_s
        parts.append((f"{render_span(left_s)} left", late))
    return parts


def limit_parts(view: RunView) -> list[tuple[str, bool]]:
    """The rate-limit windows with a considerable share used, and whether little is left."""
    return [
        (describe_window(window), window.used_percent >= 100 * WARNING_SHARE)
        for window in view.rate_limits
        if window.used_percent >= SHOWN_FROM_PERCENT
    ]


def describe_window(window: LimitWindow) -> str:
    """`62% of limit primary`."""
    return f"{window.used_percent:.0f}% of limit {clean_line(window.name, limit=40)}"


def _part(share: float, text: str) -> tuple[str, bool]:
    return f"{int(share * 100)}% {text}", share >= WARNING_SHARE


def _cost(tokens: int, usd: float | None) -> str:
    cost = f"{render_count(tokens)} tokens"
    return cost if usd is None else f"{cost}, {render_usd(usd)}"
