"""The wake-ups of a run, as a fold of its records: which are pending, and what they did. Pure.

The same fold serves the live run, a resume and what people see.
"""

from typing import assert_never

import msgspec

from swarm.mailbox.parts.wakeups.wakeup_messages import (
    WakeUp,
    WakeUpEnded,
    WakeUpFired,
    WakeUpMade,
    WakeUpRecord,
)


class WakeUpBook:
    """Records in their order make it."""

    def __init__(self) -> None:
        self.pending: dict[int, WakeUp] = {}
        self.made: dict[str, int] = {}  # agent → how many it has asked of the clock
        self.last_number = 0
        self.is_barred = False  # a person took all back: no other is made
        # The last one that fired, with the agent that its mail is for: only this mail can be
        # missing when the supervisor died.
        self.last_fired: tuple[str, WakeUpFired] | None = None

    def take(self, agent: str, body: WakeUpRecord) -> None:
        """The next record; `agent` is the one that it concerns."""
        match body:
            case WakeUpMade(wake_up=made):
                self.pending[made.number] = made
                self.last_number = max(self.last_number, made.number)
                if made.cause == "clock":
                    self.made[agent] = self.made.get(agent, 0) + 1
            case WakeUpFired():
                self.last_fired = agent, body
                self._fire(body)
            case WakeUpEnded(number=number):
                self.pending.pop(number, None)
                self.is_barred = self.is_barred or number == 0
            case _:
                assert_never(body)

    def of_agent(self, path: str) -> list[WakeUp]:
        """Its pending wake-ups, the oldest first."""
        return [one for one in self.pending.values() if one.agent == path]

    def next_due(self) -> WakeUp | None:
        """The pending one that the clock fires, or ends, first; None: the clock has nothing."""
        timed = (one for one in self.pending.values() if moment_of(one) is not None)
        return min(timed, key=lambda one: (moment_of(one), one.number), default=None)

    def _fire(self, fired: WakeUpFired) -> None:
        pending = self.pending.pop(fired.number, None)
        if pending is not None and not fired.is_last:
            self.pending[fired.number] = _fired_once_more(pending)


def moment_of(wake_up: WakeUp) -> float | None:
    """When the clock fires it or ends it; None: never."""
    moments = [one for one in (wake_up.due_unix_s, wake_up.until_unix_s) if one is not None]
    return min(moments, default=None)


def pending_after(shown: tuple[WakeUp, ...], body: WakeUpRecord) -> tuple[WakeUp, ...]:
    """What a view shows after this record."""
    match body:
        case WakeUpMade(wake_up=made):
            return (*shown, made)
        case WakeUpFired(number=number, is_last=False):
            return tuple(_fired_once_more(one) if one.number == number else one for one in shown)
        case WakeUpFired(number=number) | WakeUpEnded(number=number):
            return tuple(one for one in shown if one.number != number)
        case _:
            assert_never(body)


def _fired_once_more(wake_up: WakeUp) -> WakeUp:
    return msgspec.structs.replace(wake_up, fired=wake_up.fired + 1)
