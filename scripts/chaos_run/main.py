"""`scripts/chaos --seed N --minutes M`: plays under fire, until the minutes are over.

Exit code 0: no promise was broken; 1: one was, and it is said which, and how to see it again; 2: a
wrong option; 130: it was stopped, by Ctrl-C or SIGTERM, and left nothing.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # scripts, not a package

import trio
from chaos_testbed import ChaosTestbed, enter_mount_namespace, open_chaos_testbed
from scenario_run import FAULT_PHASE_S, ScenarioResult, run_scenario

_MOST_TOLD = 30  # violations of one play; the evidence has all
_STOPPED = 130  # as a shell counts a command that Ctrl-C ended


def main() -> int:
    """Parse, perform, report."""
    options = _parser().parse_args()
    if options.minutes <= 0:
        print("chaos: --minutes must be more than 0", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    has_disk, code = enter_mount_namespace(), _STOPPED
    if not has_disk:
        print("chaos: no mount namespace here: the disk is never full", file=sys.stderr)
    try:
        code = _run_scenarios(options, has_disk=has_disk)
    except* KeyboardInterrupt:
        print("chaos: stopped", file=sys.stderr)
    return code


def _as_ctrl_c(number: int, frame: object) -> None:
    """SIGTERM ends us in order: Trio lets Ctrl-C in where its tasks can end, and nothing else."""
    signal.raise_signal(signal.SIGINT)


def _run_scenarios(options: argparse.Namespace, *, has_disk: bool) -> int:
    """Play after play; 1 if a promise was broken."""
    began, number, broken, faults = time.monotonic(), options.tree or 0, 0, 0
    while not broken or options.go_on:
        with open_chaos_testbed(wants_disk=has_disk) as stage:
            done = trio.run(run_scenario, stage, f"{options.seed}/{number}", options.fire)
            faults += len(done.faults)
            broken += bool(done.violations)
            kept = _keep(stage, done) if done.violations or options.keep else None
        _print_result(options, number, done, kept)
        number += 1
        if options.tree is not None or time.monotonic() > began + options.minutes * 60:
            break
    minutes = (time.monotonic() - began) / 60
    trees = number - (options.tree or 0)
    totals = {"seed": options.seed, "trees": trees, "faults": faults, "broken": broken,
              "minutes": round(minutes, 2)}  # fmt: skip
    if options.json:
        print(json.dumps({"totals": totals}))
    else:
        words = "no violation" if not broken else f"{broken} plays broke a promise"
        print(f"seed {options.seed}: {trees} plays, {faults} faults in {minutes:.1f} min: {words}")
    return int(broken > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="chaos", description="Real runs under fire.")
    parser.add_argument("--seed", type=int, required=True, help="decides plays and faults")
    parser.add_argument("--minutes", type=float, default=3.0, help="begin plays so long (3)")
    parser.add_argument("--tree", type=int, metavar="K", help="only the play of this number")
    parser.add_argument("--go-on", action="store_true", help="also after a violation")
    parser.add_argument(
        "--fire", type=float, default=FAULT_PHASE_S, metavar="S",
        help=f"throw faults for so many seconds of each play ({FAULT_PHASE_S:g}); 0: throw nothing",
    )  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="keep the evidence of all plays")
    parser.add_argument("--json", action="store_true", help="one line for each play")
    return parser


def _print_result(
    options: argparse.Namespace, number: int, done: ScenarioResult, kept: Path | None
) -> None:
    """One line a play; a violation with all that is needed to look into it."""
    ends = [start.code for start in done.evidence.starts]
    if options.json:
        line = {"play": number, "agents": len(done.evidence.play),
        "records": len(done.evidence.records),
                "faults": len(done.faults), "starts": ends, "gone_s": round(done.gone_s, 2),
                "violations": done.violations, "evidence": str(kept or "")}  # fmt: skip
        print(json.dumps(line), flush=True)
        return
    print(
        f"play {number}: {len(done.evidence.play)} agents, {len(done.evidence.records)} records, "
        f"{len(done.faults)} faults, starts ended with {ends}",
        flush=True,
    )
    for words in done.violations[:_MOST_TOLD]:
        print(f"  VIOLATION {words}")
    if done.violations:
        print(
            f"  again: scripts/chaos --seed {options.seed} --tree {number} --fire {options.fire:g}"
        )
    if kept:
        print(f"  evidence: {kept}", flush=True)


def _keep(stage: ChaosTestbed, done: ScenarioResult) -> Path:
    """Copy what the play left: journal, output, effects, and which fault was thrown when."""
    kept = Path(tempfile.mkdtemp(prefix="chaos-kept-"))
    stage.free_disk()
    shutil.copytree(stage.folder, kept / "stage", symlinks=True, ignore=_no_sockets)
    lines = [f"{one.at_s:8.3f}  {one.what}" for one in done.faults]
    (kept / "faults.txt").write_text("\n".join(lines) + "\n")
    (kept / "violations.txt").write_text("\n".join(done.violations) + "\n")
    return kept


def _no_sockets(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if (Path(folder) / name).is_socket()}


if __name__ == "__main__":
    sys.exit(main())
