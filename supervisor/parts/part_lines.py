"""What people see of parts, in words; all text is cleaned. The list of it."""

from typing import assert_never

import msgspec

from swarm.mailbox.parts.goals.goal_messages import (
    GoalChecked,
    GoalCleared,
    GoalPaused,
    GoalSet,
    GoalStep,
)
from swarm.mailbox.parts.jobs.job_messages import JobBegan, JobClosed, JobRowEnded
from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded
from swarm.mailbox.parts.memories.memory_messages import MemoryMarked
from swarm.mailbox.parts.notices.notice_messages import NoticeBegan, NoticeEnded
from swarm.mailbox.parts.part_messages import PartFigures, PartRecord
from swarm.mailbox.parts.wakeups.wakeup_messages import WakeUpEnded, WakeUpFired, WakeUpMade
from swarm.mailbox.protocol.values.findings import FindingPublished

from ..base.json_line import JsonLine
from ..base.safe_text import clean_line
from .findings.finding_lines import count_findings, describe_finding
from .goals.goal_lines import describe_goal, goal_figure, goal_json_line
from .jobs.job_lines import describe_job
from .leases.lease_lines import describe_heavy_command
from .notices.notice_lines import describe_notice, notice_json_line
from .wakeups.wakeup_book import pending_after
from .wakeups.wakeup_json import wake_up_json_line
from .wakeups.wakeup_lines import describe_pending, describe_wake_up_record


def describe_part_record(record: PartRecord) -> str:
    """In every view the same."""
    match record:
        case HeavyCommandEnded():
            return describe_heavy_command(record)
        case MemoryMarked(fact_id=fact_id, why=why):
            return clean_line(f"{fact_id} may be untrue: {why}")
        case FindingPublished():
            return describe_finding(record)
        case JobBegan() | JobRowEnded() | JobClosed():
            return describe_job(record)
        case WakeUpMade() | WakeUpFired() | WakeUpEnded():
            return describe_wake_up_record(record)
        case GoalStep():
            return describe_goal(record)
        case NoticeBegan() | NoticeEnded():
            return describe_notice(record)
        case _:
            assert_never(record)


def fold_figures(figures: PartFigures, record: PartRecord) -> PartFigures:
    """What a view shows after this record; the same object if nothing changed."""
    match record:
        case FindingPublished(finding=finding):
            return msgspec.structs.replace(figures, findings=finding.number)
        case GoalStep():
            goal = goal_figure(record) or figures.goal
            return msgspec.structs.replace(figures, goal=goal)
        case NoticeBegan() | NoticeEnded():
            return figures
        case HeavyCommandEnded() | MemoryMarked() | JobBegan() | JobRowEnded() | JobClosed():
            return figures
        case WakeUpMade() | WakeUpFired() | WakeUpEnded():
            waiting = pending_after(figures.wake_ups, record)
            return msgspec.structs.replace(figures, wake_ups=waiting)
        case _:
            assert_never(record)


def describe_figures(figures: PartFigures) -> list[str]:
    """What stands below the tree of agents; nothing for a part without anything to tell."""
    found = [figures.goal] if figures.goal else []
    found += [count_findings(figures.findings)] if figures.findings else []
    return [*found, *describe_pending(figures.wake_ups)]


def describe_part_news(record: PartRecord) -> str:
    """What appended lines say of it while the run lives; "": nothing."""
    match record:
        case GoalSet() | GoalChecked() | GoalPaused() | GoalCleared() | NoticeBegan():
            return describe_part_record(record)
        case NoticeEnded(failed=failed):
            return describe_notice(record) if failed else ""
        case _:
            return ""


def describe_waiting(figures: PartFigures) -> str:
    """What the run waits for without a process, if it does; "" for nothing."""
    return "; ".join(describe_pending(figures.wake_ups))


def describe_long_wait(body: object) -> str:
    """What a person who is not there is told at once of a record; "" for nothing."""
    match body:
        case WakeUpMade(wake_up=made) if made.cause == "limit":
            return describe_pending([made])[0]
        case _:
            return ""


def part_json_lines(record: PartRecord) -> list[JsonLine]:
    """What `--json` prints of it, without `ts` and `seq`."""
    match record:
        case (
            HeavyCommandEnded()
            | MemoryMarked()
            | FindingPublished()
            | JobBegan()
            | JobRowEnded()
            | JobClosed()
        ):
            return []
        case GoalStep():
            return [goal_json_line(record)]
        case NoticeBegan() | NoticeEnded():
            return [notice_json_line(record)]
        case WakeUpMade() | WakeUpFired() | WakeUpEnded():
            return [wake_up_json_line(record)]
        case _:
            assert_never(record)


def is_shown_by(record: PartRecord, wanted: str) -> bool:
    """True for what `swarm log` prints with this option of `part_names.LOG_OPTIONS`."""
    match record:
        case FindingPublished():
            return wanted == "findings"
        case WakeUpMade() | WakeUpFired() | WakeUpEnded():
            return wanted == "wakeups"
        case GoalStep():
            return wanted == "goal"
        case NoticeBegan() | NoticeEnded():
            return wanted == "notices"
        case HeavyCommandEnded() | MemoryMarked() | JobBegan() | JobRowEnded() | JobClosed():
            return False
        case _:
            assert_never(record)
