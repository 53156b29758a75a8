"""`scripts/simulate --seeds A-B`: whole runs in one process and in virtual time, one for each seed.

Prints what was violated and how to see it again; the exit code is 1 then.
"""

import argparse
import logging
import sys
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # scripts are no package

from simulated_run import SimulationResult, collect, simulate

MOST_BYTES_AN_ITEM = 100  # a megabyte for ten thousand


def seeds_of(text: str) -> range:
    """`7` or `1-1000`."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(arguments: list[str]) -> int:
    """Play the seeds; 1 if anything was violated."""
    parser = argparse.ArgumentParser(prog="scripts/simulate")
    parser.add_argument("--seeds", type=seeds_of, default="1-50", metavar="A-B")
    parser.add_argument("--twice", action="store_true", help="play each twice; compare journals")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--keep", type=Path, help="leave the run folders there")
    parser.add_argument("--verbose", action="store_true", help="a line for each seed")
    parser.add_argument("--items", type=int, help="instead: a fan-out of so many, and its memory")
    said = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)  # agents are killed all the time; the journal tells of it
    if said.items:
        return check_fan_out_memory(said.items)
    wanted = [(seed, said.keep, said.twice) for seed in said.seeds]
    failed, states, agents, records, seconds = [], Counter(), 0, 0, 0.0
    with get_context("fork").Pool(said.jobs, maxtasksperchild=50) as pool:
        for outcome in pool.imap(_simulate, wanted):
            states[outcome.status] += 1
            agents, records = agents + outcome.agents, records + outcome.records
            seconds += outcome.seconds
            if said.verbose or outcome.violations:
                print(_line(outcome), flush=True)
            if outcome.violations:
                failed.append(outcome.seed)
    told = ", ".join(f"{count} {state}" for state, count in states.most_common())
    print(f"{len(wanted)} seeds ({told}), {agents} agents, {records} records, {seconds:.0f} s")
    for seed in failed[:20]:
        print(f"again: scripts/simulate --seeds {seed} --verbose --keep /tmp/simulated")
    return int(bool(failed))


def check_fan_out_memory(items: int) -> int:
    """1 if what ended leaves more behind than 10,000 items may: a megabyte."""
    from fan_out_memory import measure_fan_out_memory

    found = measure_fan_out_memory(items)
    print(f"{items} items, {found.status}, {found.seconds:.0f} s")
    for sample in found.samples:
        print(f"  after {sample.items:>6} items: {sample.package_bytes / 1024:>8.0f} KiB")
    print(f"left behind by each: {found.bytes_an_item:.1f} bytes (limit {MOST_BYTES_AN_ITEM})")
    for line, grown in found.growing_lines():
        print(f"  {grown / 1024:>8.1f} KiB  {line}")
    return int(found.bytes_an_item > MOST_BYTES_AN_ITEM or found.status != "completed")


def _simulate(wanted: tuple[int, Path | None, bool]) -> SimulationResult:
    seed, keep, twice = wanted
    outcome = simulate(seed, keep=keep)
    if twice and (other := simulate(seed).digest) != outcome.digest:
        words = f"played again its journal differs: {outcome.digest[:12]}, {other[:12]}"
        outcome = outcome._replace(violations=(*outcome.violations, words))
    collect()
    return outcome


def _line(outcome: SimulationResult) -> str:
    head = (
        f"seed {outcome.seed}: {outcome.status}, {outcome.agents} agents, {outcome.lives} lives, "
        f"{outcome.records} records, {outcome.seconds:.2f} s, {outcome.digest[:12]}"
    )
    return "\n".join((head, *(f"  violated: {one}" for one in outcome.violations)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
