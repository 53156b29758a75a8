"""A supervised child as data, and the rule by which it starts again. Pure.

Source: OTP's child specification and restart intensity; the back-off is ours.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from swarm.mailbox.protocol.values.base import Value

from .process_types import ProcessEnd, RunningProcess, SpawnError


class RestartPolicy(Value):
    """At most `intensity` restarts within `period_s`, each after a longer delay."""

    intensity: int = 3  # 0: it is never restarted
    period_s: float = 60.0
    first_delay_s: float = 0.1
    delay_growth: float = 5.0  # 0.1, 0.5, 2.5 s


DEFAULT_RESTART = RestartPolicy()


class Restart(Value):
    after_s: float


class GiveUp(Value):
    reason: str


def decide_restart(
    deaths: Sequence[float], *, now: float, policy: RestartPolicy = DEFAULT_RESTART
) -> Restart | GiveUp:
    """Decide after a death. `deaths`: the times of all deaths, this one included."""
    recent = sum(1 for moment in deaths if now - moment < policy.period_s)
    if recent > policy.intensity:
        return GiveUp(reason=f"it died {recent} times within {policy.period_s:g} s")
    return Restart(after_s=policy.first_delay_s * policy.delay_growth ** max(recent - 1, 0))


def never_retry(error: SpawnError) -> bool:
    """A start that failed once would fail again."""
    return False


def ignore_end(cause: ProcessEnd | SpawnError) -> None:
    """Nothing is journaled."""


class ChildSpec(NamedTuple):
    """What `ChildLoop` needs to know of one child. What it calls without `await` never waits."""

    start: Callable[[], Awaitable[RunningProcess]]  # raises SpawnError
    on_end: Callable[[], None]  # after each end and each failed start of `run`, expected or not
    after_start: Callable[[], Awaitable[None]] | None = None  # its end is noticed only after this
    on_crash: Callable[[ProcessEnd], None] = ignore_end  # after an end that nobody wanted
    on_give_up: Callable[[ProcessEnd | SpawnError], None] = ignore_end  # no further start
    ask_to_stop: Callable[[], Awaitable[None]] | None = None  # None: stopping begins with SIGTERM
    retries: Callable[[SpawnError], bool] = never_retry  # failed starts that count as a death
    restart: RestartPolicy = DEFAULT_RESTART
    grace_s: float = 5.0  # for stopping, before SIGKILL
