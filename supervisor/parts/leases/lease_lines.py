"""The end of a heavy command as one line for people."""

from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded

from ...base.number_format import render_span
from ...base.safe_text import clean_line

_LIMIT = 200  # characters of the command


def describe_heavy_command(ended: HeavyCommandEnded) -> str:
    """What a heavy command used, and how long it waited for its turn."""
    waited = f"waited {render_span(ended.waited_s)}" if ended.waited_s >= 0.1 else ""
    used = ""
    if ended.ran:
        memory = f"{ended.peak_bytes / 2**20:,.0f} MiB"
        used = f"ran {render_span(ended.seconds)}, {ended.cpu_s:.1f} s of processor, {memory}"
    parts = ", ".join(filter(None, (waited, used or "did not run")))
    return f"{ended.kind} {clean_line(ended.command, limit=_LIMIT)}: {parts}"
