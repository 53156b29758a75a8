"""Whether and when a dead process is restarted: at most 3 times in 60 seconds. Pure.

Source: OTP's restart intensity; the back-off is ours.
"""

from collections.abc import Sequence

from swarm.mailbox.protocol.base import Value

MAX_RESTARTS = 3
PERIOD_S = 60.0
_FIRST_DELAY_S = 0.1
_GROWTH = 5.0  # 0.1, 0.5, 2.5 s


class Restart(Value):
    after_s: float


class GiveUp(Value):
    reason: str


def decide_restart(deaths: Sequence[float], *, now: float) -> Restart | GiveUp:
    """Decide after a death. `deaths`: the times of all deaths, this one included."""
    recent = sum(1 for moment in deaths if now - moment < PERIOD_S)
    if recent > MAX_RESTARTS:
        return GiveUp(reason=f"it died {recent} times within {PERIOD_S:g} s")
    return Restart(after_s=_FIRST_DELAY_S * _GROWTH ** max(recent - 1, 0))
