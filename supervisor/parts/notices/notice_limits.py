"""How often a person is told something. No I/O, no clock."""

from collections.abc import Sequence

WINDOWS = ((600.0, 5), (3_600.0, 15), (86_400.0, 60))  # seconds, notices within them


def refusal_at(now: float, told: Sequence[float]) -> str:
    """Why no more may be told now; "": it may. `told`: Unix times of those before, in order."""
    for span_s, most in WINDOWS:
        recent = [at for at in told if now - span_s < at <= now]
        if len(recent) >= most:
            wait_s = recent[-most] + span_s - now
            return (
                f"not sent: {most} notices in {span_s / 60:g} minutes are the most; "
                f"the next one may be sent in {max(1, round(wait_s))} s"
            )
    return ""
