"""The table of an evaluation, from the results of its tries. Pure."""

from collections.abc import Sequence

import msgspec
from eval_run import TryResult

_HEADS = ("task", "solved", "calls parsed", "corrections", "tokens in", "out", "median s", "ended")


class EvalFigures(msgspec.Struct):
    """Of one task, or of all."""

    tries: int = 0
    solved: int = 0
    calls: int = 0
    parsed: int = 0
    corrections: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    median_s: float = 0.0
    false_successes: int = 0


def add_up(tries: Sequence[TryResult]) -> EvalFigures:
    """The sums over these tries, and the median of their seconds."""
    figures = EvalFigures(tries=len(tries))
    for one in tries:
        figures.solved += one.solved
        figures.calls += one.calls
        figures.parsed += one.parsed
        figures.corrections += one.corrections
        figures.input_tokens += one.input_tokens
        figures.output_tokens += one.output_tokens
        figures.false_successes += one.is_false_success
    seconds = sorted(one.seconds for one in tries)
    figures.median_s = seconds[len(seconds) // 2] if seconds else 0.0
    return figures


def solved_tasks(tries: Sequence[TryResult]) -> int:
    """How many tasks were solved at least once."""
    return len({one.task for one in tries if one.solved})


def render_table(tries: Sequence[TryResult]) -> str:
    """A line for each task, one for all, and a closing sentence."""
    rows: list[tuple[str, ...]] = [_HEADS]
    names = list(dict.fromkeys(one.task for one in tries))
    for name in (*names, ""):
        chosen = [one for one in tries if name in (one.task, "")]
        ends = ", ".join(dict.fromkeys(f"{one.status} {one.exit_code}" for one in chosen))
        rows.append(_row(name or "all", add_up(chosen), ends if name else ""))
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADS))]
    lines = ["  ".join(_padded(row, widths)).rstrip() for row in rows]
    sums = add_up(tries)
    lines.append(
        f"{solved_tasks(tries)} of {len(names)} tasks solved at least once; "
        f"{sums.false_successes} runs ended with exit code 0 without a readable answer"
    )
    return "\n".join(lines)


def _row(name: str, sums: EvalFigures, ends: str) -> tuple[str, ...]:
    return (
        name,
        f"{sums.solved}/{sums.tries}",
        f"{sums.parsed}/{sums.calls}",
        str(sums.corrections),
        str(sums.input_tokens),
        str(sums.output_tokens),
        f"{sums.median_s:.0f}",
        ends,
    )


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    left = {0, len(_HEADS) - 1}  # texts; the rest are figures
    cells = enumerate(zip(row, widths, strict=True))
    return [cell.ljust(w) if place in left else cell.rjust(w) for place, (cell, w) in cells]
