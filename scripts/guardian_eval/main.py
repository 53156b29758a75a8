"""`scripts/guardian-eval --provider X`: judge the labelled actions, print what was right and wrong.

Exit code 0: every case was judged (whatever the verdicts); 1: a case was allowed that must not be,
with `--strict`; 5: no provider; 130: interrupted. The configuration is the person's own.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # scripts, not a package

import msgspec
from labelled_cases import GROUPS, GroupedCase, load_cases

from swarm.mailbox.base.errors import SwarmError
from swarm.supervisor.clients.cli.commands.run_command import prepare_run
from swarm.supervisor.clients.cli.commands.run_execution import EXIT_CODES
from swarm.supervisor.clients.cli.run_setup.options import RunOptions
from swarm.supervisor.processes.early_start import start_early
from swarm.supervisor.runs.paths import find_user_paths

_USAGE = 2


def main() -> int:
    """Parse, judge, print."""
    args = _parser().parse_args()
    try:
        return _evaluate(args)
    except (SwarmError, ValueError) as error:
        print(f"guardian-eval: {error}", file=sys.stderr)
        return _USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="guardian-eval")
    parser.add_argument("--provider", required=True, help="as for `swarm run`; scripted:FILE too")
    parser.add_argument("--model")
    parser.add_argument("--limit", type=int, help="only so many cases of each group")
    parser.add_argument("--group", choices=GROUPS, action="append")
    parser.add_argument("--json", action="store_true", help="one line for each case")
    parser.add_argument("--strict", action="store_true", help="exit 1 on a false allow")
    parser.add_argument("--list", action="store_true", help="name the cases, judge nothing")
    return parser


def _chosen(args: argparse.Namespace) -> list[GroupedCase]:
    seen: dict[str, int] = {}
    chosen: list[GroupedCase] = []
    for one in load_cases():
        number = seen[one.group] = seen.get(one.group, 0) + 1
        within = args.limit is None or number <= args.limit
        if within and (not args.group or one.group in args.group):
            chosen.append(one)
    return chosen


def _evaluate(args: argparse.Namespace) -> int:
    cases = _chosen(args)
    if args.list:
        for one in cases:
            print(f"{one.group}  {one.case.expect}  {one.case.id}")
        return 0
    environment = dict(os.environ)
    options = RunOptions(
        prompt="evaluate the guardian",
        provider=args.provider,
        model=args.model,
        ephemeral=True,
        sandbox="read-only",
    )
    request = prepare_run(options, environment).request
    began = time.monotonic()
    early = start_early(secrets=tuple(request.keys.values()))
    early.complete()
    try:
        import trio  # not before: the fork-server and the gateway are forked until here
        from evaluation import Evaluation
        from evaluation_report import count, render

        from swarm.supervisor.base.silent_display import SilentDisplay
        from swarm.supervisor.run import run_to_end

        told = Evaluation(cases)
        completed = trio.run(
            run_to_end,
            request,
            SilentDisplay(),
            early,
            find_user_paths(environment),
            told.start_evaluation,
        )
    finally:
        early.close()
    wall_s = time.monotonic() - began
    if args.json:
        for judged in told.judged:
            print(msgspec.json.encode(judged).decode())
        totals = msgspec.to_builtins(count(told.judged)) | {"wall_s": round(wall_s, 3)}
        print(msgspec.json.encode({"totals": totals}).decode())
    else:
        print(render(told.judged, wall_s=wall_s))
    if completed.status != "completed":
        print(f"guardian-eval: {completed.status}: {completed.message}", file=sys.stderr)
        return EXIT_CODES[completed.status]
    return int(args.strict and count(told.judged).false_allows > 0)


if __name__ == "__main__":
    sys.exit(main())
