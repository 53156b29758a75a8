"""`scripts/attack`: play every escape known to the project against real runs, and say what got out.

Exit: 0 all walls held, 1 something got out (or what must work did not), 2 wrong options.
"""

import argparse
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))  # scripts, not a package

from play import BOTH, Play, Stack
from scene import open_scene

HERE = Path(__file__).parent
_STAGED = "SWARM_ATTACK_STAGED"
_BWRAPS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")


class Outcome(NamedTuple):
    """How one play ended. `words` say what got out, or what broke."""

    group: str
    play: Play
    stack: Stack
    words: str
    seconds: float


def groups() -> dict[str, tuple[Play, ...]]:
    """Every `plays_<group>.py` here."""
    found: dict[str, tuple[Play, ...]] = {}
    for path in sorted(HERE.glob("plays_*.py")):
        found[path.stem.removeprefix("plays_")] = importlib.import_module(path.stem).PLAYS
    return found


def perform(play: Play, user: str) -> str:
    """Play it; what got out, "" if nothing did."""
    with open_scene(user) as scene:
        play.prepare(scene)
        scene.own()
        with play.host(scene):
            scene.run(
                play.calls(scene), play.options(scene), deadline_s=play.deadline_s,
                extra=play.environment,
            )  # fmt: skip
            words = play.escaped(scene)
        if words and os.environ.get("SWARM_ATTACK_VERBOSE"):
            print(scene.said, file=sys.stderr)
        return words


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/attack", description=__doc__)
    parser.add_argument("--stack", choices=(*BOTH, "both"), default="both")
    parser.add_argument("--user", default="", help="play as this user (needs root)")
    parser.add_argument("--fast", action="store_true", help="the selection that CI plays")
    parser.add_argument("--group", action="append", help="only this group; can be repeated")
    parser.add_argument("--only", default="", help="only plays whose name holds this text")
    parser.add_argument("--list", action="store_true", help="name the plays, play nothing")
    return parser.parse_args()


def hide_bubblewrap() -> None:
    """In a mount namespace of our own there is no bubblewrap: the Landlock stack is chosen."""
    masks = [f"mount --bind /dev/null {path}" for path in _BWRAPS if Path(path).exists()]
    flags = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-current-user", "--mount"]
    script = " && ".join([*masks, 'exec "$@"'])
    words = ["unshare", *flags, "--propagation", "private", "sh", "-c", script, "sh"]
    os.execvp(words[0], [*words, sys.executable, "-P", *sys.argv, "--stack", "landlock"])


def play_all(options: argparse.Namespace, stack: Stack) -> list[Outcome]:
    """Each play that is wanted on this stack, a line each."""
    outcomes: list[Outcome] = []
    for group, plays in groups().items():
        if options.group and group not in options.group:
            continue
        for play in plays:
            if stack not in play.stacks or (options.fast and not play.fast):
                continue
            if options.only not in play.name:
                continue
            began = time.monotonic()
            words = "" if options.list else perform(play, options.user)
            outcome = Outcome(group, play, stack, words, time.monotonic() - began)
            outcomes.append(outcome)
            show(outcome, listed=options.list)
    return outcomes


def show(outcome: Outcome, *, listed: bool) -> None:
    """One line of the table."""
    good, bad = ("works", "BROKEN") if outcome.play.must_work else ("held", "ESCAPED")
    state = "-" if listed else (bad if outcome.words else good)
    line = f"{outcome.group:10} {outcome.stack:9} {state:8} {outcome.seconds:5.1f}s  "
    print(line + outcome.play.name + (f": {outcome.words}" if outcome.words else ""), flush=True)


def main() -> int:
    """Play on each stack; the Landlock one in a process without bubblewrap."""
    options = read_options()
    if options.stack == "both":
        codes = [
            subprocess.run(
                [sys.executable, "-P", *sys.argv, "--stack", stack], check=False
            ).returncode
            for stack in BOTH
        ]
        return max(codes)
    if options.stack == "landlock" and not os.environ.get(_STAGED):
        os.environ[_STAGED] = "1"
        hide_bubblewrap()
    outcomes = play_all(options, options.stack)
    lost = [one for one in outcomes if one.words]
    print(f"{options.stack}: {len(outcomes)} plays, {len(lost)} got out")
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
