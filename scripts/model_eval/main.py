"""`scripts/model-eval --provider X --model M`: let a model do twelve small tasks, and check each.

Exit code 0: all tries were made; 1: with `--least N`, fewer tasks were solved, or a run ended with
exit code 0 without a readable answer; 2: bad options. The configuration is the person's own.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # scripts, not a package

import msgspec
from eval_report import add_up, render_table, solved_tasks
from eval_run import Settings, TryResult, run_try
from eval_tasks import TASKS

PEERS = ("codex",)


def main() -> int:
    """Parse, run every try, print."""
    args = _parser().parse_args()
    if args.list:
        for task in TASKS:
            print(f"{task.name:16}{task.prompt}")
        return 0
    settings = _settings(args)
    tries: list[TryResult] = []
    for task in TASKS:
        if args.task and task.name not in args.task:
            continue
        for number in range(1, args.tries + 1):
            result = run_try(task, number, settings)
            tries.append(result)
            _tell(result, as_json=args.json)
            if result.solved and args.until_solved:
                break
    if args.json:
        totals = msgspec.to_builtins(add_up(tries)) | {"solved_tasks": solved_tasks(tries)}
        print(msgspec.json.encode({"totals": totals}).decode())
    else:
        print(render_table(tries))
    is_short = solved_tasks(tries) < args.least or add_up(tries).false_successes > 0
    return int(args.least > 0 and is_short)


def _tell(result: TryResult, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(result).decode(), flush=True)
        return
    word = "solved" if result.solved else "not solved"
    answer = " ".join(result.answer.split())[:100]
    where = f" [{result.kept}]" if result.kept else ""
    line = f"{result.task} {result.number}: {word}, {result.seconds:.0f} s, {answer}{where}"
    print(line, file=sys.stderr, flush=True)


def _settings(args: argparse.Namespace) -> Settings:
    return Settings(
        provider=args.provider,
        model=args.model,
        deadline_s=args.deadline,
        options=tuple(args.option),
        peer=_find_peer(args.peer) if args.peer else "",
        keep=args.keep,
    )


def _find_peer(peer: str) -> str:
    found = shutil.which(peer) or os.environ.get("CODEX_BIN")
    if found is None:
        raise SystemExit(
            f"model-eval: {peer} is not on PATH; `npm install -g @openai/codex` installs it, or "
            "set CODEX_BIN"
        )
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="model-eval")
    parser.add_argument("--provider", help="as for `swarm run`")
    parser.add_argument("--model")
    parser.add_argument("--tries", type=int, default=3, help="of each task (3)")
    parser.add_argument("--until-solved", action="store_true", help="no further try after that")
    parser.add_argument("--task", choices=[task.name for task in TASKS], action="append")
    parser.add_argument("--deadline", type=int, default=300, help="seconds of one try (300)")
    parser.add_argument("--option", action="append", default=[], help="one more word for the run")
    parser.add_argument("--peer", choices=PEERS, help="the same tasks on an installed peer")
    parser.add_argument("--least", type=int, default=0, help="tasks that must be solved")
    parser.add_argument("--keep", action="store_true", help="keep folders and runs, and name them")
    parser.add_argument("--json", action="store_true", help="one line for each try, then totals")
    parser.add_argument("--list", action="store_true", help="name the tasks, run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
