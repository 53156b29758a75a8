"""What a check leads to is a function of the records, and no word of a model ends a goal."""

import msgspec
import pytest

from swarm.mailbox.parts.goals.goal_messages import (
    Goal,
    GoalChecked,
    GoalChecking,
    GoalCleared,
    GoalPaused,
    GoalReported,
    GoalSet,
    GoalSettings,
)
from swarm.supervisor.parts.goals.goal_state import (
    AfterCheck,
    GoalCell,
    decide_after_check,
    equal_failures,
    summarize,
)

GOAL = Goal(text="it works", verify=("make test",), rounds=4, stop_if_same=3)


def failed(number: int, failure: str = "f", before: str = "a", after: str = "a") -> GoalChecked:
    return GoalChecked(
        round=number, rounds=4, passed=False, command="make test", exit_code=2, failure=failure,
        tree_before=before, tree=after,
    )  # fmt: skip


def passed(number: int) -> GoalChecked:
    return GoalChecked(round=number, rounds=4, passed=True, leads_to="achieved")


def cell(*records, goal: Goal = GOAL) -> GoalCell:
    return GoalCell(GoalSettings(goal=goal), records)


USED_UP = AfterCheck("unmet", "its 4 rounds are used up")
SAME = AfterCheck(
    "unmet", "the check failed in the same way 3 times in a row, and no file had changed"
)
NEXT = AfterCheck("next")


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        ([], passed(1), AfterCheck("achieved")),
        ([failed(1), failed(2)], passed(3), AfterCheck("achieved")),
        ([], failed(1), NEXT),
        ([failed(1)], failed(2), NEXT),
        ([failed(1), failed(2)], failed(3), SAME),
        ([failed(1), failed(2, "g")], failed(3), NEXT),
        ([failed(1), failed(2, before="b", after="b")], failed(3, before="b"), NEXT),
        ([failed(1, after="")], failed(2), NEXT),
        ([failed(1, "a"), failed(2, "b"), failed(3, "c")], failed(4, "d"), USED_UP),
    ],
)
def test_a_check_leads_to_the_next_round_or_to_an_end(before, now, after):
    assert decide_after_check(cell(*before).state, now) == after


def test_files_that_the_check_itself_changes_are_no_change_of_the_agents():
    checks = (failed(1, before="a", after="b"), failed(2, before="b", after="c"))
    assert equal_failures(checks) == 2


def test_a_failure_of_unknown_files_is_never_the_same_twice():
    assert equal_failures((failed(1, after=""), failed(2, before=""))) == 1


def test_blocked_ends_a_goal_only_if_its_check_fails():
    state = cell(GoalReported(status="blocked", why="no key")).state
    why = "the agent said that it is blocked: no key"
    assert decide_after_check(state, failed(1)) == AfterCheck("unmet", why)
    assert decide_after_check(state, passed(1)) == AfterCheck("achieved")


def test_complete_is_only_noted():
    state = cell(GoalReported(status="complete", why="trust me")).state
    assert decide_after_check(state, failed(1)) == NEXT


def test_what_was_reported_counts_for_one_round():
    goal = cell(GoalReported(status="blocked"), failed(1))
    assert goal.state.reported is None


def test_equal_failures_end_nothing_if_that_is_switched_off():
    goal = msgspec.structs.replace(GOAL, stop_if_same=0)
    assert decide_after_check(cell(failed(1), failed(2), goal=goal).state, failed(3)) == NEXT


def test_the_status_follows_the_records():
    goal = cell()
    unmet = msgspec.structs.replace(failed(1), leads_to="unmet", why="x")
    seen = [goal.state.status]
    for record in (
        GoalPaused(paused=True), GoalPaused(paused=False), unmet, GoalSet(goal=GOAL),
        passed(1), GoalCleared(), GoalSet(goal=GOAL),
    ):  # fmt: skip
        goal.apply(record)
        seen.append(goal.state.status)
    assert seen == [
        "active", "paused", "active", "unmet", "active", "achieved", "none", "active",
    ]  # fmt: skip


def test_a_check_without_an_end_has_not_counted():
    state = cell(failed(1), GoalChecking(round=2, rounds=4)).state
    assert (state.round, state.checking is not None) == (2, True)


def test_a_run_without_a_goal_has_none():
    assert not GoalCell(GoalSettings()).is_set


def test_a_summary_names_each_round_and_the_files_of_the_check_that_changed():
    last = msgspec.structs.replace(
        failed(2), tail="x\nE: 3 failed\n\n", changed_checks=("tests/a.py",)
    )
    assert summarize(cell(failed(1), last).state).splitlines() == [
        "round 1: `make test` ended with 2;",
        "round 2: `make test` ended with 2: E: 3 failed;",
        "changed since the goal was set, and part of its check: tests/a.py",
    ]
