"""Wake-ups in words, for people; all text is cleaned."""

from collections.abc import Sequence
from typing import assert_never

from swarm.mailbox.parts.wakeups.wakeup_messages import (
    WakeCause,
    WakeUp,
    WakeUpEnd,
    WakeUpEnded,
    WakeUpFired,
    WakeUpMade,
    WakeUpRecord,
)

from ...base.safe_text import clean_line
from .wakeup_rules import written

_CAUSES: dict[WakeCause, str] = {
    "clock": "the clock",
    "command": "a command",
    "limit": "a limit to reset",
    "person": "a person",
    "check": "a check",
}
_ENDS: dict[WakeUpEnd, str] = {
    "fired": "fired",
    "agent": "its agent took it back",
    "person": "a person took it back",
    "expired": "its time is over",
    "agent_gone": "its agent was ended for good",
    "lost": "what it waited for was lost",
}


def describe_wake_up(wake_up: WakeUp) -> str:
    """What is waited for, and since when."""
    who = wake_up.agent or "every agent"
    due = "" if wake_up.due_unix_s is None else f" ({written(wake_up.due_unix_s)})"
    since = written(wake_up.made_unix_s)
    why = f": {wake_up.why}" if wake_up.why else ""
    return clean_line(f"{who} waits for {_CAUSES[wake_up.cause]}{due} since {since}{why}")


def describe_wake_up_record(record: WakeUpRecord) -> str:
    match record:
        case WakeUpMade(wake_up=made):
            return f"wake-up {made.number}: {describe_wake_up(made)}"
        case WakeUpFired(number=number, text=text):
            return clean_line(f"wake-up {number} fires: {text}")
        case WakeUpEnded(number=number, reason=reason):
            return f"wake-up {number} is over: {_ENDS[reason]}"
        case _:
            assert_never(record)


def describe_pending(pending: Sequence[WakeUp]) -> list[str]:
    """One part of a line below the tree; nothing without wake-ups."""
    if not pending:
        return []
    due = [one.due_unix_s for one in pending if one.due_unix_s is not None]
    following = f", next {written(min(due))}" if due else ""
    if len(pending) == 1:
        return [describe_wake_up(pending[0])]
    return [f"{len(pending)} wake-ups{following}"]
