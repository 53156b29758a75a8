"""A goal as its records say, and what a check leads to. No I/O, no clock.

Only a check that passed ends a goal as achieved. What the model says of it is noted, and can end it
as unmet alone.
"""

from collections.abc import Iterable
from typing import Literal, assert_never

import msgspec

from swarm.mailbox.parts.goals.goal_messages import (
    Goal,
    GoalChecked,
    GoalChecking,
    GoalCleared,
    GoalPaused,
    GoalRecord,
    GoalReported,
    GoalSet,
    GoalSettings,
    GoalShown,
    GoalStatus,
)

_SUMMARY_LINES = 12  # rounds that a summary names; the others are counted
_LINE_CHARS = 160


class GoalState(msgspec.Struct, frozen=True):
    """Between two records. Without a goal nothing is checked."""

    goal: Goal = Goal()
    check_files: dict[str, str] = {}
    checks: tuple[GoalChecked, ...] = ()  # of this goal, one a round
    checking: GoalChecking | None = None  # it has begun, and not ended
    reported: GoalReported | None = None  # in this round
    paused: bool = False
    is_cleared: bool = False

    @property
    def status(self) -> GoalStatus:
        if not self.goal.text or self.is_cleared:
            return "none"
        if self.checks and self.checks[-1].leads_to != "next":
            return self.checks[-1].leads_to
        return "paused" if self.paused else "active"

    @property
    def why(self) -> str:
        """Why it is unmet."""
        return self.checks[-1].why if self.checks else ""

    @property
    def round(self) -> int:
        """The present one, from 1."""
        return len(self.checks) + 1

    @property
    def changed_checks(self) -> tuple[str, ...]:
        """As the last check found them."""
        return self.checks[-1].changed_checks if self.checks else ()

    def shown(self) -> GoalShown:
        """The state for people."""
        status = self.status
        return GoalShown(
            status=status,
            goal=self.goal if status != "none" else Goal(),
            checks=self.checks if status != "none" else (),
            is_checking=self.checking is not None,
            why=self.why,
            changed_checks=self.changed_checks,
        )


def first_state(settings: GoalSettings) -> GoalState:
    """That of a run that begins."""
    return GoalState(goal=settings.goal, check_files=settings.check_files)


def fold_goal(state: GoalState, record: GoalRecord) -> GoalState:
    """The state after this record."""
    replace = msgspec.structs.replace
    match record:
        case GoalSet(goal=goal, check_files=files):
            return GoalState(goal=goal, check_files=files)
        case GoalChecking():
            return replace(state, checking=record)
        case GoalChecked():
            return replace(state, checks=(*state.checks, record), checking=None, reported=None)
        case GoalReported():
            return replace(state, reported=record)
        case GoalPaused(paused=paused):
            return replace(state, paused=paused, checking=None)
        case GoalCleared():
            return replace(state, is_cleared=True, checking=None)
        case _:
            assert_never(record)


class GoalCell:
    """The present state of a run's goal: one for each run."""

    def __init__(self, settings: GoalSettings, records: Iterable[GoalRecord] = ()) -> None:
        self.state = first_state(settings)
        for record in records:
            self.apply(record)

    @property
    def is_set(self) -> bool:
        return self.state.status != "none"

    def apply(self, record: GoalRecord) -> None:
        self.state = fold_goal(self.state, record)


class AfterCheck(msgspec.Struct, frozen=True):
    """`next`: the root is told, and works on."""

    leads_to: Literal["next", "achieved", "unmet"]
    why: str = ""


def decide_after_check(state: GoalState, checked: GoalChecked) -> AfterCheck:
    """What this check leads to; `state` is that before it."""
    goal, checks = state.goal, (*state.checks, checked)
    if checked.passed:
        return AfterCheck("achieved")
    reported = state.reported
    if reported is not None and reported.status == "blocked":
        return AfterCheck("unmet", _blocked(reported))
    if goal.stop_if_same and equal_failures(checks) >= goal.stop_if_same:
        times = "once" if goal.stop_if_same == 1 else f"{goal.stop_if_same} times in a row"
        return AfterCheck(
            "unmet", f"the check failed in the same way {times}, and no file had changed"
        )
    if len(checks) >= goal.rounds:
        rounds = "its only round is" if goal.rounds == 1 else f"its {goal.rounds} rounds are"
        return AfterCheck("unmet", f"{rounds} used up")
    return AfterCheck("next")


def _blocked(reported: GoalReported) -> str:
    return f"the agent said that it is blocked: {reported.why or 'it did not say why'}"


def equal_failures(checks: tuple[GoalChecked, ...]) -> int:
    """How many of the last checks failed in the same way while no file changed between them.

    Files whose digest is not known count as changed.
    """
    count = 0
    for number, one in enumerate(reversed(checks)):
        later = checks[len(checks) - number] if number else None
        if one.passed or one.failure != checks[-1].failure:
            break
        if later is not None and (not one.tree or one.tree != later.tree_before):
            break
        count += 1
    return count


def summarize(state: GoalState) -> str:
    """What was tried, a line for each round; the last ones, if there are many."""
    shown = state.checks[-_SUMMARY_LINES:]
    lines = [describe_check(one) for one in shown]
    if left := len(state.checks) - len(shown):
        lines.insert(0, f"({left} earlier rounds)")
    if state.changed_checks:
        lines.append(describe_changed(state.changed_checks))
    return ";\n".join(lines)


def describe_check(checked: GoalChecked) -> str:
    """One line, not cleaned."""
    head = f"round {checked.round}: "
    if checked.passed:
        return f"{head}the check passed"
    last = next((line for line in reversed(checked.tail.splitlines()) if line.strip()), "")
    said = f": {last.strip()[:_LINE_CHARS]}" if last else ""
    if not checked.command:
        return f"{head}the judge said no{said}"
    how = "did not end" if checked.exit_code is None else f"ended with {checked.exit_code}"
    return f"{head}`{checked.command[:_LINE_CHARS]}` {how}{said}"


def describe_changed(paths: tuple[str, ...]) -> str:
    """What is said of files of the check that are not what they were."""
    more = f" and {len(paths) - 8} more" if len(paths) > 8 else ""
    return f"changed since the goal was set, and part of its check: {', '.join(paths[:8])}{more}"
