"""A goal's records in words, for the log and below the tree; all text is cleaned."""

from typing import assert_never

from swarm.mailbox.parts.goals.goal_messages import (
    GoalChecked,
    GoalChecking,
    GoalCleared,
    GoalPaused,
    GoalRecord,
    GoalReported,
    GoalSet,
)

from ...base.json_line import JsonLine
from ...base.safe_text import clean_line
from .goal_state import describe_changed, describe_check

_TAIL_CHARS = 4_000


def describe_goal(record: GoalRecord) -> str:
    """One line."""
    match record:
        case GoalSet(goal=goal):
            return clean_line(f"goal: {goal.text}")
        case GoalChecking(round=number, rounds=rounds):
            return f"goal: the check of round {number} of {rounds} begins"
        case GoalChecked():
            return clean_line(f"goal: {_describe_checked(record)}")
        case GoalReported(status=status, why=why):
            return clean_line(f"goal: the agent says {status}{f': {why}' if why else ''}")
        case GoalPaused(paused=paused):
            return "goal: paused" if paused else "goal: goes on"
        case GoalCleared():
            return "goal: cleared"
        case _:
            assert_never(record)


def _describe_checked(record: GoalChecked) -> str:
    parts = [describe_check(record)]
    if record.leads_to == "achieved":
        parts = [f"achieved in round {record.round}"]
    elif record.leads_to == "unmet":
        parts.append(f"unmet: {record.why}")
    if record.changed_checks:
        parts.append(describe_changed(record.changed_checks))
    return "; ".join(parts)


def goal_figure(record: GoalRecord) -> str:
    """What stands below the tree after this record; "": as before."""
    match record:
        case GoalSet(goal=goal):
            return clean_line(f"goal: round 1 of {goal.rounds}: {goal.text}", limit=120)
        case GoalChecking(round=number, rounds=rounds):
            return f"goal: round {number} of {rounds} is checked"
        case GoalChecked(leads_to="next", round=number, rounds=rounds):
            return f"goal: round {number + 1} of {rounds}"
        case GoalChecked() | GoalPaused() | GoalCleared():
            return clean_line(describe_goal(record), limit=200)
        case GoalReported():
            return ""
        case _:
            assert_never(record)


class GoalSetLine(JsonLine, tag="goal.set"):
    text: str
    verify: tuple[str, ...]
    rounds: int
    judge: str


class GoalCheckStartedLine(JsonLine, tag="goal.check.started"):
    round: int
    rounds: int


class GoalCheckCompletedLine(JsonLine, tag="goal.check.completed"):
    """`leads_to`: next, achieved or unmet."""

    round: int
    rounds: int
    passed: bool
    leads_to: str
    why: str
    command: str
    exit_code: int | None
    output: str
    changed_checks: tuple[str, ...]


class GoalReportedLine(JsonLine, tag="goal.reported"):
    """The model's word, which ends nothing."""

    status: str
    why: str


class GoalStatusLine(JsonLine, tag="goal.status"):
    """By a person: paused, active or cleared."""

    status: str


def goal_json_line(record: GoalRecord) -> JsonLine:
    """The line of `--json`."""
    match record:
        case GoalSet(goal=goal):
            return GoalSetLine(
                text=goal.text, verify=goal.verify, rounds=goal.rounds, judge=goal.judge
            )
        case GoalChecking(round=number, rounds=rounds):
            return GoalCheckStartedLine(round=number, rounds=rounds)
        case GoalChecked():
            return GoalCheckCompletedLine(
                round=record.round,
                rounds=record.rounds,
                passed=record.passed,
                leads_to=record.leads_to,
                why=record.why,
                command=record.command,
                exit_code=record.exit_code,
                output=record.tail[-_TAIL_CHARS:],
                changed_checks=record.changed_checks,
            )
        case GoalReported(status=status, why=why):
            return GoalReportedLine(status=status, why=why)
        case GoalPaused(paused=paused):
            return GoalStatusLine(status="paused" if paused else "active")
        case GoalCleared():
            return GoalStatusLine(status="cleared")
        case _:
            assert_never(record)
