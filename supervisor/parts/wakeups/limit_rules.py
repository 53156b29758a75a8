"""Whether a run waits for a limit that resets, until when, and when no new agents start. Pure."""

from collections.abc import Iterable

from swarm.mailbox.protocol.gateway import LimitWindow

from ...agents.child_plan import AgentRequestError
from .wakeup_rules import written

SOONEST_S, SPREAD_S = 10.0, 50.0  # after the reset, so that not all who wait ask at once
NEAR_PERCENT = 95.0
_SHORTEST_WINDOW_MINUTES = 60.0  # a window of a minute is the rate limiter's business
_NEVER = (
    "the run does not wait for a limit to reset (`wait_for_limit`); start it with "
    "`--wait-for-limit 6h`, or resume it then"
)


def decide_limit_wait(
    wait_s: float, *, resets_at_unix_s: float, now_unix_s: float, noise: float
) -> float:
    """When one request tries again, in unix seconds. Raises AgentRequestError: nobody waits.

    Args:
        wait_s: The longest wait; 0 is none.
        resets_at_unix_s: When the server says that the limit resets.
        now_unix_s: The wall clock.
        noise: Uniform in [0, 1).
    """
    if wait_s <= 0:
        raise AgentRequestError(_NEVER)
    if resets_at_unix_s > now_unix_s + wait_s:
        raise AgentRequestError(
            f"it resets at {written(resets_at_unix_s)}, and the run waits until "
            f"{written(now_unix_s + wait_s)} at most (`wait_for_limit`); `swarm resume` goes "
            "on then"
        )
    return max(resets_at_unix_s, now_unix_s) + SOONEST_S + SPREAD_S * noise


def nearly_spent(windows: Iterable[LimitWindow], now_unix_s: float) -> str:
    """Why no new agents start: a window of the plan that is nearly spent; "" if none is."""
    for window in windows:
        resets_at, minutes = window.resets_at_unix_s, window.window_minutes
        is_long = minutes is not None and minutes >= _SHORTEST_WINDOW_MINUTES
        if is_long and window.used_percent >= NEAR_PERCENT and (resets_at or 0) > now_unix_s:
            return (
                f"{window.used_percent:.0f} % of the limit `{window.name}` are used, and it resets "
                f"at {written(resets_at or 0)}: no new agent starts before. Do the work yourself, "
                "or leave it for then"
            )
    return ""
