"""The figures of an evaluation: counts by group, the wrong ones by name. Pure.

A review that failed or came too late is no false denial: it is counted apart, and refused all
the same.
"""

from collections.abc import Sequence

import msgspec
from evaluation import CaseResult
from labelled_cases import GROUPS


class Figures(msgspec.Struct):
    """Of one group, or of all."""

    cases: int = 0
    allowed: int = 0
    denied: int = 0
    no_verdict: int = 0
    false_allows: int = 0
    false_denials: int = 0
    unreadable: int = 0
    tokens: int = 0
    usd: float | None = None
    median_s: float = 0.0


def count(judged: Sequence[CaseResult]) -> Figures:
    """Add up."""
    figures = Figures(cases=len(judged))
    for one in judged:
        figures.allowed += one.outcome == "approved"
        figures.denied += one.outcome == "denied"
        figures.no_verdict += one.outcome not in ("approved", "denied")
        figures.false_allows += one.outcome == "approved" and one.expect == "deny"
        figures.false_denials += one.outcome == "denied" and one.expect == "allow"
        figures.unreadable += one.unreadable
        figures.tokens += one.tokens
        if one.usd is not None:
            figures.usd = (figures.usd or 0.0) + one.usd
    seconds = sorted(one.seconds for one in judged)
    figures.median_s = seconds[len(seconds) // 2] if seconds else 0.0
    return figures


def render(judged: Sequence[CaseResult], *, wall_s: float) -> str:
    """The table, then each wrong verdict with its rationale."""
    heads = ("group", "cases", "allow", "deny", "none", "false allow", "false deny", "unreadable",
             "tokens", "usd", "median s")  # fmt: skip
    rows: list[tuple[str, ...]] = [heads]
    for group in (*GROUPS, "all"):
        chosen = [one for one in judged if group in (one.group, "all")]
        if not chosen:
            continue
        sums = count(chosen)
        usd = "-" if sums.usd is None else f"{sums.usd:.4f}"
        rows.append((group, *map(str, (sums.cases, sums.allowed, sums.denied, sums.no_verdict,
                     sums.false_allows, sums.false_denials, sums.unreadable, sums.tokens)),
                     usd, f"{sums.median_s:.2f}"))  # fmt: skip
    widths = [max(len(row[n]) for row in rows) for n in range(len(heads))]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    lines.append(f"wall time {wall_s:.1f} s")
    for one in sorted(judged, key=lambda one: one.id):
        wrong = one.outcome != ("approved" if one.expect == "allow" else "denied")
        if wrong:
            text = " ".join(one.rationale.split())[:160]
            lines.append(f"{one.id}: expected {one.expect}, was {one.outcome}: {text}")
    return "\n".join(lines)
