"""`scripts/bench NAME [GROUP …] [--quick] [--json] [--peer codex] [--peer claude]`: measure, print,
and say what is too slow. `scripts/bench report FILE…` makes docs/benchmarks.md of what `--json`
wrote.

A row is a median beside its limit and its floor, the smallest and the greatest run, and what peers
need. Exit code 1: a figure is over its limit, or a bench could not be measured.
"""

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the benches are scripts, not a package

import baselines
import peer_bench
from machine_info import MachineSpeed, describe_machine, describe_speed
from measurements import Curve, Measured, Row, Timeline, print_table

MODULES = {
    "spine": "core_bench",
    "crowd": "many_agents_bench",
    "safety": "sandbox_bench",
    "prefix": "prompt_cache_bench",
    "tricks": "tricks_bench",
    "chat": "chat_bench",
    "mcp": "mcp_bench",
    "leases": "lease_bench",
    "extensions": "extensions_bench",
    "copies": "copy_bench",
    "hosts": "hosts_bench",
    "link": "link_bench",
    "sizes": "size_bench",
    "memories": "memory_bench",
    "timeline": "spawn_timeline",
    "turn": "turn_parts_bench",
    "pages": "page_bench",
}
BENCHES = (
    "spine", "crowd", "agents", "safety", "prefix", "tricks", "curves", "soak", "chat", "mcp",
    "leases", "extensions", "copies", "hosts", "link", "sizes", "memories", "timeline", "turn",
    "pages",
)  # fmt: skip
ALL = tuple(one for one in BENCHES if one != "crowd")  # that is a part of `spine`


def main(arguments: list[str]) -> int:
    """Measure one bench or all; 1 if a figure is over its limit."""
    import team_bench

    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("name", choices=(*BENCHES, "all", "report"))
    names = f"of agents: {' '.join(team_bench.GROUPS)}; of report: files that --json wrote"
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=names)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--cycles", type=int, default=0, help="agents that come and go (10000)")
    parser.add_argument("--json", action="store_true", help="one JSON object; the table on stderr")
    parser.add_argument(
        "--peer", choices=[*peer_bench.PEERS], action="append", default=[],
        help="the same on an installed peer; repeatable",
    )  # fmt: skip
    said = parser.parse_args(arguments)
    if said.name == "report":
        from benchmark_report import write_report

        return write_report([Path(name) for name in said.groups])
    if said.name == "agents" and (unknown := set(said.groups) - set(team_bench.GROUPS)):
        parser.error(f"no such group: {' '.join(sorted(unknown))}")
    try:
        peers = [peer_bench.find(name) for name in said.peer]
    except peer_bench.PeerMissing as error:
        parser.error(str(error))
    chosen = ALL if said.name == "all" else (said.name,)
    machine, weather = describe_machine(), MachineSpeed()

    failed: list[str] = []

    def rows() -> Iterator[Measured]:
        for name in chosen:
            weather.measure()
            try:
                yield from measure(name, said, peers)
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                failed.append(name)  # what the others measured is not lost with it
                print(f"scripts/bench: {name} could not be measured: {error}", file=sys.stderr)
        weather.measure()

    out = sys.stderr if said.json else sys.stdout
    found = print_table(rows(), out)
    told = weather.describe()
    print(describe_speed(told), file=out)
    if said.json:
        figures = [one._asdict() for one in found if isinstance(one, Row)]
        pictures = {
            "curves": [one._asdict() for one in found if isinstance(one, Curve)],
            "timelines": [one._asdict() for one in found if isinstance(one, Timeline)],
        }
        versions = ", ".join(f"{one.title} {peer_bench.version(one)}" for one in peers)
        how = {"quick": said.quick, "peer": versions or None}
        print(json.dumps({"machine": machine | told, **how, "rows": figures, **pictures}))
    return int(bool(failed) or any(isinstance(one, Row) and one.is_missed for one in found))


def measure(
    name: str, said: argparse.Namespace, peers: list[peer_bench.Peer]
) -> Iterator[Measured]:
    """What one bench yields, each row with its floor and the installed peers' figures."""
    quick = bool(said.quick)
    theirs = {one.title: peer_bench.measure(name, one, quick=quick) for one in peers}
    cycles = said.cycles or (1_000 if quick else 10_000)
    if name == "soak":
        import soak_bench

        yield from soak_bench.measure(min(cycles, 1_000) if said.cycles or not quick else 100)
        return
    if name == "curves":
        import scaling_bench

        yield from scaling_bench.measure(quick=quick, peers=peers)
        return
    if name == "agents":
        import team_bench

        groups = tuple(said.groups) if said.name == "agents" else ()
        rows = team_bench.measure(groups, cycles, quick=quick)
    else:
        bench = importlib.import_module(MODULES[name])  # each imports what it alone needs
        rows = bench.measure(quick=quick)
    for row in rows:
        if isinstance(row, Row):
            row = baselines.with_baseline(peer_bench.with_peer_figures(row, theirs))
        yield row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
