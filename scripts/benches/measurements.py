"""What a bench yields, and the table it is printed as while it is measured."""

import statistics
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TextIO


class Row(NamedTuple):
    """One measured figure. `limit` None: there is none. `floor`: what the machine itself asks for
    the same. `peer` says who needs what for it.
    """

    what: str
    value: float
    limit: float | None
    unit: str
    peer: str = ""
    least: float | None = None
    most: float | None = None
    floor: float | None = None

    @classmethod
    def of(
        cls, what: str, values: Iterable[float], limit: float | None, unit: str, peer: str = ""
    ) -> "Row":
        """The median of some runs, with the best and the worst of them."""
        ordered = sorted(values)
        return cls(what, statistics.median(ordered), limit, unit, peer, ordered[0], ordered[-1])

    @property
    def is_missed(self) -> bool:
        return self.limit is not None and self.value > self.limit


class Curve(NamedTuple):
    """One line of one plot: pairs of x and y."""

    plot: str  # its file's name, and a key of `report.PLOTS`
    line: str
    points: tuple[tuple[float, float], ...]


class Lane(NamedTuple):
    """A process in a timeline, and the times when a processor ran it, in ms."""

    name: str
    spans: tuple[tuple[float, float], ...]


class Timeline(NamedTuple):
    """What ran when, until the last first request; `first_requests` are marks, in ms."""

    plot: str  # its file's name, and a key of `benchmark_report.TIMELINES`
    lanes: tuple[Lane, ...]
    first_requests: tuple[float, ...]


Measured = Row | Curve | Timeline


def smooth(points: list[tuple[int, float]], width: int) -> tuple[tuple[float, float], ...]:
    """The median of each `width` points, at the first of them."""
    windows = [points[begin : begin + width] for begin in range(0, len(points), width)]
    return tuple((one[0][0], statistics.median(value for _, value in one)) for one in windows)


_HEAD = (
    f"{'measured':<58}{'median':>10}{'limit':>10}{'ratio':>7}{'floor':>10}  {'min-max':<13}  peer"
)


def print_table(found: Iterator[Measured], to: TextIO = sys.stdout) -> list[Measured]:
    """Print rows as they come; everything that came."""
    print(_HEAD, file=to, flush=True)
    kept: list[Measured] = []
    for one in found:
        kept.append(one)
        if isinstance(one, Row):
            print(line_of(one), file=to, flush=True)
    return kept


def line_of(row: Row) -> str:
    value = f"{row.value:.4g} {row.unit}"
    limit = "" if row.limit is None else f"{row.limit:.4g} {row.unit}"
    ratio = f"{row.value / row.limit:.2f}" if row.limit else ""
    floor = "" if row.floor is None else f"{row.floor:.3g} {row.unit}"
    spread = "" if row.least is None else f"{row.least:.4g}-{row.most:.4g}"
    mark = "  !" if row.is_missed else ""
    line = f"{row.what:<58}{value:>10}{limit:>10}{ratio:>7}{floor:>10}  {spread:<13}  {row.peer}"
    return f"{line.rstrip()}{mark}"
