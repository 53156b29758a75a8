"""What is said of bounds: to models (the `.md` files beside this one) and to people."""

from pathlib import Path

from swarm.mailbox.ids import ROOT_PATH

from .ledger import Share

_HERE = Path(__file__).parent
_TEXTS = {path.stem: path.read_text(encoding="utf-8").strip() for path in _HERE.glob("*.md")}
_OPTIONS = {
    "tokens": "--budget-tokens",
    "dollars": "--budget-usd",
    "requests": "-c budget.requests",
}


def tight_note(share: Share) -> str:
    """For a model: 80 % of a bound is used."""
    return (
        _TEXTS["tight"]
        .replace("{percent}", str(percent(share)))
        .replace("{whose}", whose(share))
        .replace("{used}", figure(share.used, share))
        .replace("{bound}", figure(share.bound, share))
        .replace("{unit}", share.unit)
    )


def late_note(left_s: float) -> str:
    """For a model: 90 % of its time is over."""
    whole = max(1, round(left_s))
    words = f"{whole} seconds" if whole < 120 else f"{whole // 60} minutes"
    return _TEXTS["late"].replace("{left}", words)


def tight_warning(share: Share) -> str:
    """For people: the same, once a bound."""
    used, bound = figure(share.used, share), figure(share.bound, share)
    return f"{percent(share)} % of {whose(share)} is used: {used} of {bound} {share.unit}"


def used_up(share: Share) -> str:
    """For people: why no request goes out any more, and what to do."""
    used, bound = figure(share.used, share), figure(share.bound, share)
    return (
        f"the next request does not fit into {whose(share)}: {used} of {bound} {share.unit} are "
        f"used; `swarm resume` with a higher {_OPTIONS[share.unit]} goes on"
    )


def whose(share: Share) -> str:
    """Whose bound it is."""
    return "the run's budget" if share.path == ROOT_PATH else f"the budget of {share.path}"


def percent(share: Share) -> int:
    return int(share.portion * 100)


def figure(number: float, share: Share) -> str:
    """A number of the share's unit."""
    return f"{number:,.4g}" if share.unit == "dollars" else f"{number:,.0f}"
