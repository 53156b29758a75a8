"""Wake-ups as lines of `--json`."""

from typing import assert_never

from msgspec import UNSET

from swarm.mailbox.parts.wakeups.wakeup_messages import (
    WakeUpEnded,
    WakeUpFired,
    WakeUpMade,
    WakeUpRecord,
)

from ...base.json_line import JsonLine


class WakeUpMadeLine(JsonLine, frozen=True, tag="wake_up.made"):
    """From now on the agent (all agents if there is none) may wait for this without a process."""

    number: int
    by: str  # clock, command, limit, person, check
    why: str
    due_unix_s: float | None
    until_unix_s: float | None
    most: int


class WakeUpFiredLine(JsonLine, frozen=True, tag="wake_up.fired"):
    """It has fired."""

    number: int
    text: str
    is_last: bool


class WakeUpEndedLine(JsonLine, frozen=True, tag="wake_up.ended"):
    """It is over without firing again; the number 0: a person took all back, and bars others."""

    number: int
    reason: str


def wake_up_json_line(record: WakeUpRecord) -> JsonLine:
    """The line of `--json`."""
    match record:
        case WakeUpMade(wake_up=made):
            return WakeUpMadeLine(
                number=made.number,
                by=made.cause,
                why=made.why,
                due_unix_s=made.due_unix_s,
                until_unix_s=made.until_unix_s,
                most=made.most,
                agent=made.agent or UNSET,
            )
        case WakeUpFired(number=number, text=text, is_last=is_last):
            return WakeUpFiredLine(number=number, text=text, is_last=is_last)
        case WakeUpEnded(number=number, reason=reason):
            return WakeUpEndedLine(number=number, reason=reason)
        case _:
            assert_never(record)
