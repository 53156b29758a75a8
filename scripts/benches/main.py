"""`scripts/bench NAME [GROUP …] [--quick] [--cycles N]`: measure, print, and say what is too slow.

A row is a median beside its limit, the smallest and the greatest run, and what peers need.
"""

import argparse
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))  # the benches are scripts, not a package


class Row(NamedTuple):
    """One measured figure. `limit` None: there is none. `peer` says who needs what for the same."""

    what: str
    value: float
    limit: float | None
    unit: str
    peer: str = ""
    least: float | None = None
    most: float | None = None

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


def print_table(rows: Iterator[Row]) -> int:
    """Print rows as they come; 1 if one is over its limit."""
    print(f"{'measured':<58}{'median':>10}{'limit':>10}{'ratio':>8}  {'min-max':<13}  best peer")
    missed = 0
    for row in rows:
        missed += row.is_missed
        value = f"{row.value:.4g} {row.unit}"
        limit = "" if row.limit is None else f"{row.limit:.4g} {row.unit}"
        ratio = f"{row.value / row.limit:.2f}" if row.limit else ""
        spread = "" if row.least is None else f"{row.least:.4g}-{row.most:.4g}"
        mark = "  !" if row.is_missed else ""
        line = f"{row.what:<58}{value:>10}{limit:>10}{ratio:>8}  {spread:<13}  {row.peer}"
        print(f"{line.rstrip()}{mark}", flush=True)
    return int(missed > 0)


def main(arguments: list[str]) -> int:
    """Measure one bench; 1 if a figure is over its limit."""
    if arguments[:1] == ["soak"]:
        import soak

        return soak.main(arguments[1:])
    import agents
    import crowd
    import prefix
    import safety
    import spine

    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("name", choices=("spine", "crowd", "agents", "safety", "prefix"))
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=" ".join(agents.GROUPS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--cycles", type=int, default=0, help="agents that come and go (10000)")
    said = parser.parse_args(arguments)
    if said.name == "spine":
        return print_table(spine.measure(said.quick))
    if said.name == "safety":
        return print_table(safety.measure(said.quick))
    if said.name == "prefix":
        return print_table(prefix.measure(said.quick))
    if said.name == "crowd":  # the part of `spine` about many processes
        return print_table(crowd.measure(said.quick))
    if unknown := set(said.groups) - set(agents.GROUPS):
        parser.error(f"no such group: {' '.join(sorted(unknown))}")
    cycles = said.cycles or (1_000 if said.quick else 10_000)
    return print_table(agents.measure(tuple(said.groups), cycles, said.quick))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
