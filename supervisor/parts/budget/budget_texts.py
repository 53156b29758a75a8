"""Texts about limits: for models (the `.md` files beside this one) and for people."""

from pathlib import Path

from swarm.mailbox.base.ids import ROOT_PATH

from .ledger import BudgetUsage

_HERE = Path(__file__).parent
_TEXTS = {path.stem: path.read_text(encoding="utf-8").strip() for path in _HERE.glob("*.md")}
_OPTIONS = {
    "tokens": "--budget-tokens",
    "dollars": "--budget-usd",
    "requests": "-c budget.requests",
}


def budget_notice(share: BudgetUsage) -> str:
    """For a model: 80 % of a limit is used."""
    return (
        _TEXTS["tight"]
        .replace("{percent}", str(percent(share)))
        .replace("{whose}", budget_owner(share))
        .replace("{used}", format_amount(share.used, share))
        .replace("{bound}", format_amount(share.bound, share))
        .replace("{unit}", share.unit)
    )


def deadline_notice(left_s: float) -> str:
    """For a model: 90 % of its time is over."""
    whole = max(1, round(left_s))
    duration = f"{whole} seconds" if whole < 120 else f"{whole // 60} minutes"
    return _TEXTS["late"].replace("{left}", duration)


def budget_warning(share: BudgetUsage) -> str:
    """For people: the same, once per limit."""
    used, bound = format_amount(share.used, share), format_amount(share.bound, share)
    return f"{percent(share)} % of {budget_owner(share)} is used: {used} of {bound} {share.unit}"


def budget_used_up_text(share: BudgetUsage) -> str:
    """For people: why no more requests are sent, and what to do."""
    used, bound = format_amount(share.used, share), format_amount(share.bound, share)
    return (
        f"the next request does not fit into {budget_owner(share)}: {used} of {bound} "
        f"{share.unit} are "
        f"used; `swarm resume` with a higher {_OPTIONS[share.unit]} goes on"
    )


def budget_owner(share: BudgetUsage) -> str:
    """Whose limit it is."""
    return "the run's budget" if share.path == ROOT_PATH else f"the budget of {share.path}"


def percent(share: BudgetUsage) -> int:
    return int(share.used_fraction * 100)


def format_amount(number: float, share: BudgetUsage) -> str:
    """A number in the share's unit."""
    return f"{number:,.4g}" if share.unit == "dollars" else f"{number:,.0f}"
