"""`swarm goal`: the goal of a live run, or of one that has ended."""

from functools import partial

import click
import trio

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.parts.goals.goal_messages import (
    Goal,
    GoalAction,
    GoalRecord,
    GoalShown,
    SteerGoal,
)

from ....base.json_line import JsonPart
from ....base.safe_text import clean_block, clean_line
from ....clients.cli.base.control_client import send_request
from ....clients.cli.base.lazy_commands import ColorCommand
from ....clients.cli.base.printing import print_json
from ....clients.cli.base.run_choice import (
    RunWanted,
    all_projects_option,
    choose_run,
    choose_run_to_change,
    take_run_wanted,
    yes_option,
)
from ....clients.cli.run_setup.click_values import OptionValue
from ....journal.journal_reader import run_records
from ....request.saved_request import load_request
from ....runs.paths import RunPaths
from ....runs.run_metadata import is_run_alive, read_metadata
from ..goal_state import GoalCell, describe_changed, describe_check

_ACTIONS: tuple[GoalAction, ...] = ("show", "set", "pause", "continue", "clear")
_ALSO = {"resume": "continue", "edit": "set", "status": "show"}  # words of other harnesses
_DOES = {
    "set": "give a new goal to",
    "pause": "pause the goal of",
    "continue": "go on with the goal of",
    "clear": "take back the goal of",
}
_REPLY_LIMIT_S = 60.0  # of `set`, which looks at the project's files


@click.command("goal", cls=ColorCommand)
@click.argument("words", nargs=-1, metavar="[RUN] [show|set|pause|continue|clear] [TEXT]")
@click.option(
    "--verify", multiple=True, metavar="COMMAND", help="Of `set`: a command of the check."
)
@click.option("--rounds", type=click.IntRange(min=1), default=10, help="Of `set`; default: 10.")
@click.option("--judge", metavar="ROLE", default="", help="Of `set`: an agent that judges.")
@click.option("--json", "as_json", is_flag=True, help="The goal as one JSON object.")
@all_projects_option
@yes_option
def goal(words: tuple[str, ...], **given: OptionValue) -> None:
    """Show, set, pause or clear the goal of a run.

    A run with a goal goes on until the goal's check passes. Without RUN: the run of this project.
    A paused goal is not checked; `continue` checks it again, and gives one that was not met all its
    rounds anew. On an ended run only `show` works: `swarm resume RUN` goes on with it.

    \b
    Examples:
      swarm goal
      swarm goal 4f21c0aa set "All tests pass" --verify "pytest -q"
      swarm goal 4f21c0aa pause
    """
    run, action, text = _split(words)
    asked = SteerGoal(action=action)
    as_json = bool(given.pop("as_json"))
    verify, rounds, judge = (given.pop(name) for name in ("verify", "rounds", "judge"))
    if action == "set":
        asked = SteerGoal(
            action="set", goal=Goal(text=text, verify=verify, rounds=rounds, judge=judge)
        )
    elif verify or judge or text:
        raise UsageError("words, --verify and --judge go with `set`")
    if action == "show":
        given.pop("yes")
        here = choose_run(RunWanted(run=run, all_projects=bool(given["all_projects"])))
    else:
        here = choose_run_to_change(take_run_wanted(run, given), _DOES[action])
    shown = _ask(here, asked) if is_run_alive(here) else _read(here)
    if as_json:
        print_json(as_report(here.folder.name, shown))
        return
    for line in describe_shown(shown):
        click.echo(line)


def _split(words: tuple[str, ...]) -> tuple[str | None, GoalAction, str]:
    """The run, what to do, and the text. Raises UsageError."""
    run: str | None = None
    rest = list(words)
    if rest and rest[0] not in {*_ACTIONS, *_ALSO}:
        run = rest.pop(0)
    if not rest:
        return run, "show", ""
    word = _ALSO.get(rest[0], rest[0])
    rest.pop(0)
    for action in _ACTIONS:
        if word == action:
            return run, action, " ".join(rest)
    raise UsageError(f"what shall become of the goal? {', '.join(_ACTIONS)}; not {word[:40]!r}")


def _ask(here: RunPaths, request: SteerGoal) -> GoalShown:
    """Raises SwarmError."""
    reply = trio.run(partial(send_request, timeout_s=_REPLY_LIMIT_S), here, request)
    if not isinstance(reply, GoalShown):
        raise SwarmError("the run answered something else than its goal")
    return reply


def _read(here: RunPaths) -> GoalShown:
    """As the journal of an ended run says."""
    read_metadata(here)
    records = (one.body for one in run_records(here) if isinstance(one.body, GoalRecord))
    return GoalCell(load_request(here).parts.goals, records).state.shown()


class CheckReport(JsonPart):
    """One check; `leads_to`: next, achieved or unmet."""

    round: int
    passed: bool
    leads_to: str
    command: str
    exit_code: int | None
    output: str
    changed_checks: tuple[str, ...]


class GoalReport(JsonPart):
    """`swarm goal --json`. `status`: none, active, paused, achieved or unmet."""

    run: str
    status: str
    text: str
    verify: tuple[str, ...]
    judge: str
    round: int
    rounds: int
    is_checking: bool
    why: str
    checks: tuple[CheckReport, ...]


def as_report(run: str, shown: GoalShown) -> GoalReport:
    """All fields, also those that are empty."""
    goal = shown.goal
    return GoalReport(
        run=run,
        status=shown.status,
        text=goal.text,
        verify=goal.verify,
        judge=goal.judge,
        round=_round(shown),
        rounds=goal.rounds,
        is_checking=shown.is_checking,
        why=shown.why,
        checks=tuple(
            CheckReport(
                round=one.round,
                passed=one.passed,
                leads_to=one.leads_to,
                command=one.command,
                exit_code=one.exit_code,
                output=one.tail,
                changed_checks=one.changed_checks,
            )
            for one in shown.checks
        ),
    )


def _round(shown: GoalShown) -> int:
    """The present one; of a goal that has ended, its last."""
    return len(shown.checks) + (shown.status in {"active", "paused"})


def describe_shown(shown: GoalShown) -> list[str]:
    """Lines for a person, cleaned."""
    if shown.status == "none":
        return ["this run has no goal"]
    goal = shown.goal
    lines = [*clean_block(goal.text).split("\n")]
    lines += [f"  check: {clean_line(one)}" for one in goal.verify]
    lines += [f"  judge: {clean_line(goal.judge)}"] if goal.judge else []
    at_work = ", is checked now" if shown.is_checking else ""
    lines.append(f"  {shown.status}, round {_round(shown)} of {goal.rounds}{at_work}")
    lines += [f"  {clean_line(describe_check(one))}" for one in shown.checks]
    lines += [f"  unmet: {clean_line(shown.why)}"] if shown.why else []
    if shown.changed_checks:
        lines.append(f"  {clean_line(describe_changed(shown.changed_checks), limit=2_000)}")
    return lines
