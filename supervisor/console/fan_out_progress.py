"""Progress of a fan-out: counts and estimates from one view, without earlier views.

An estimate is given only from items that really ended since the run was started or resumed.
"""

import msgspec

from swarm.mailbox.protocol.control import RunView

_WINDOW_S = 300.0  # the rate is computed over the last five minutes
_MIN_ENDS_FOR_ESTIMATE = 10  # ended items before tokens and cost are estimated


class FanOutProgress(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    done: int
    failed: int
    running: int
    per_minute: float | None = None
    left_s: float | None = None
    tokens_in_all: int | None = None
    usd_in_all: float | None = None


def measure_fan_out(view: RunView, *, now: float) -> FanOutProgress | None:
    """The progress; None if the run has no fan-out."""
    if not view.fan_total:
        return None
    ended = view.fan_done + view.fan_failed
    going = [agent for agent in view.agents if agent.state not in {"ended", "queued"}]
    running = sum(agent.path.count("/") == 2 for agent in going)
    base = FanOutProgress(
        total=view.fan_total, done=view.fan_done, failed=view.fan_failed, running=running
    )
    begin = max(view.started, now - _WINDOW_S)
    lately = sum(
        agent.last_progress >= begin and agent.path.count("/") == 2
        for agent in view.agents
        if agent.state == "ended"
    )
    if lately and now > begin and view.status == "running":
        rate = lately / (now - begin)
        left = max(view.fan_total - ended, 0)
        base = msgspec.structs.replace(base, per_minute=rate * 60, left_s=left / rate)
    if ended < _MIN_ENDS_FOR_ESTIMATE or ended >= view.fan_total:
        return base
    share = view.fan_total / ended
    usd = None if view.usd is None else view.usd * share
    tokens = round(view.usage.total_tokens * share)
    return msgspec.structs.replace(base, tokens_in_all=tokens or None, usd_in_all=usd)
