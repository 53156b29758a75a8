"""`scripts/attack`: play every escape known to the project against real runs, and say what got out.

Exit: 0 all walls held, 1 something got out (or what must work did not, or a play showed nothing),
2 wrong options.
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

from attack import BOTH, Attack, Stack
from attack_testbed import AttackTestbed, open_attack_testbed

HERE = Path(__file__).parent
_STAGED = "SWARM_ATTACK_STAGED"
_BWRAPS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")


class AttackResult(NamedTuple):
    """How one play ended. `words` say what got out, what broke, or why it was not played."""

    group: str
    play: Attack
    state: str
    detail: str = ""
    seconds: float = 0.0

    @property
    def is_lost(self) -> bool:
        """True for what nobody may be content with."""
        return self.state in {"ESCAPED", "BROKEN", "VOID"}


def groups() -> dict[str, tuple[Attack, ...]]:
    """Every `attacks_<group>.py` here."""
    found: dict[str, tuple[Attack, ...]] = {}
    for path in sorted(HERE.glob("attacks_*.py")):
        found[path.stem.removeprefix("attacks_")] = importlib.import_module(path.stem).PLAYS
    return found


def run_attack(group: str, play: Attack, options: argparse.Namespace) -> AttackResult:
    """Play it, and look."""
    began = time.monotonic()
    with open_attack_testbed(options.user, options.swarm) as scene:
        play.prepare(scene)
        scene.chown_files()
        with play.background(scene):
            scene.run(
                play.calls(scene), play.options(scene), others=play.others(scene),
                deadline_s=play.deadline_s, extra=play.environment,
            )  # fmt: skip
            state, words = judge(play, scene)
        if options.verbose:
            print(scene.output, file=sys.stderr)
        return AttackResult(group, play, state, words, time.monotonic() - began)


def judge(play: Attack, scene: AttackTestbed) -> tuple[str, str]:
    """What got out, or what broke, comes before the doubt whether anything was tried."""
    if words := play.find_escape(scene):
        return ("BROKEN" if play.must_work else "ESCAPED"), words
    if words := play.tried(scene):
        return "VOID", words
    return ("works" if play.must_work else "held"), ""


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/attack", description=__doc__)
    parser.add_argument("--stack", choices=(*BOTH, "both"), default="both")
    parser.add_argument("--user", default="", help="play as this user (needs root)")
    parser.add_argument("--fast", action="store_true", help="the selection that CI plays")
    parser.add_argument("--group", action="append", help="only this group; can be repeated")
    parser.add_argument("--only", default="", help="only plays whose name holds this text")
    parser.add_argument("--swarm", type=Path, default=Path(sys.executable).with_name("swarm"),
                        help="attack this command, of another installation")  # fmt: skip
    parser.add_argument("--verbose", action="store_true", help="print what each run said")
    parser.add_argument("--list", action="store_true", help="name the plays, play nothing")
    options = parser.parse_args()
    options.swarm = options.swarm.absolute()
    return options


def why_not_playable(options: argparse.Namespace) -> str:
    """What keeps the user from starting the command at all; "" if nothing does."""
    try:
        with open_attack_testbed(options.user, options.swarm) as scene:
            said, code = scene.run_program(scene.swarm("--version"))
    except (KeyError, OSError) as error:
        return f"no scene for {options.user or 'you'}: {error}"
    if code == 0:
        return ""
    return (
        f"{options.user or 'you'} cannot start {options.swarm}: {said.strip()[-300:]}\n"
        "All folders on the way to it, its checkout, and its Python must be open to that user."
    )


def hide_bubblewrap() -> None:
    """In a mount namespace of our own there is no bubblewrap: the Landlock stack is chosen."""
    masks = [f"mount --bind /dev/null {path}" for path in _BWRAPS if Path(path).exists()]
    flags = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-current-user", "--mount"]
    script = " && ".join([*masks, 'exec "$@"'])
    words = ["unshare", *flags, "--propagation", "private", "sh", "-c", script, "sh"]
    os.execvp(words[0], [*words, sys.executable, "-P", *sys.argv, "--stack", "landlock"])


def run_attacks(options: argparse.Namespace, stack: Stack) -> list[AttackResult]:
    """Each play that is wanted, a line each; those that this stack does not have say why."""
    outcomes: list[AttackResult] = []
    for group, plays in groups().items():
        if options.group and group not in options.group:
            continue
        for play in plays:
            if (options.fast and not play.fast) or options.only not in play.name:
                continue
            if stack in play.not_on:
                outcome = AttackResult(group, play, "not here", play.not_on[stack])
            elif options.list:
                outcome = AttackResult(group, play, "-")
            else:
                outcome = run_attack(group, play, options)
            outcomes.append(outcome)
            show(outcome, stack)
    return outcomes


def show(outcome: AttackResult, stack: Stack) -> None:
    """One line of the table."""
    line = f"{outcome.group:10} {stack:9} {outcome.state:8} {outcome.seconds:5.1f}s  "
    print(line + outcome.play.name + (f": {outcome.detail}" if outcome.detail else ""), flush=True)


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
    if not options.list and (why := why_not_playable(options)):
        print(f"scripts/attack: {why}", file=sys.stderr)
        return 2
    outcomes = run_attacks(options, options.stack)
    lost = [one for one in outcomes if one.is_lost]
    played = sum(one.state != "not here" for one in outcomes)
    print(f"{options.stack}: {played} plays, {len(lost)} got out or showed nothing")
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
