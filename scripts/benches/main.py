"""`scripts/bench NAME [--quick]`: measure, print medians beside the limit and the best peer."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))  # the benches are scripts, not a package


class Row(NamedTuple):
    """One measured figure. `peer` says who needs what for the same."""

    what: str
    value: float
    limit: float
    unit: str
    peer: str = ""


def print_table(rows: Iterator[Row]) -> int:
    """Print rows as they come; 1 if one is over its limit."""
    print(f"{'measured':<58}{'median':>10}{'limit':>10}{'ratio':>8}  best peer")
    missed = 0
    for row in rows:
        ratio = row.value / row.limit
        missed += ratio > 1
        mark = "  !" if ratio > 1 else ""
        value, limit = f"{row.value:.4g} {row.unit}", f"{row.limit:.4g} {row.unit}"
        print(f"{row.what:<58}{value:>10}{limit:>10}{ratio:>8.2f}  {row.peer}{mark}", flush=True)
    return int(missed > 0)


def main(arguments: list[str]) -> int:
    import spine

    benches: dict[str, Callable[[bool], Iterator[Row]]] = {"spine": spine.measure}
    names = [word for word in arguments if not word.startswith("-")]
    if len(names) != 1 or names[0] not in benches:
        print(f"usage: scripts/bench {'|'.join(benches)} [--quick]", file=sys.stderr)
        return 2
    return print_table(benches[names[0]]("--quick" in arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
