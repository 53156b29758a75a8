"""Format numbers for people: short, with a known maximum width, always in the same form.

The console formats hundreds of numbers ten times per second, so these are plain string operations.
"""

from datetime import UTC, datetime

BASELINE_TOKENS = 12_000  # instructions and tools


def render_count(number: int) -> str:
    """At most five characters: `999`, `1.2k`, `345k`, `1.2M`, `3.4G`."""
    if number < 1_000:
        return str(max(number, 0))
    for unit, size in (("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)):
        value = number / size
        if value < 9.95:
            return f"{value:.1f}{unit}"
        if value < 999.5:
            return f"{value:.0f}{unit}"
    return "many"


def render_bytes(size_bytes: int) -> str:
    """At most four characters, in powers of 1024: `870K`, `34M`, `1.2G`."""
    value = size_bytes / 1024
    for unit in ("K", "M", "G"):
        if value < 9.95 and unit == "G":
            return f"{value:.1f}G"
        if value < 999.5:
            return f"{value:.0f}{unit}"
        value /= 1024
    return "many"


def render_usd(usd: float) -> str:
    """At most six characters: `$0.003`, `$0.42`, `$12.3`, `$1234`."""
    if 0 < usd < 0.0005:
        return "<0.1¢"
    if usd < 0.0995:
        return f"${usd:.3f}"
    if usd < 9.995:
        return f"${usd:.2f}"
    return f"${usd:.1f}" if usd < 999.95 else f"${usd:.0f}"


def context_left(used_tokens: int, window_tokens: int) -> int | None:
    """Percent of a model's window that is left, 0 to 100; None if the window is unknown.

    The baseline of every conversation is not counted, so a fresh one has 100.
    """
    if window_tokens <= 0:
        return None
    room = window_tokens - BASELINE_TOKENS
    if room <= 0:
        return 0
    left = room - max(used_tokens - BASELINE_TOKENS, 0)
    return min(max(round(100 * left / room), 0), 100)


def render_age(seconds: float) -> str:
    """At most four characters: `0s`, `59s`, `12m`, `23h`, `99d`."""
    whole = max(int(seconds), 0)
    for unit, size, below in (("s", 1, 60), ("m", 60, 60), ("h", 3_600, 24)):
        if whole // size < below:
            return f"{whole // size}{unit}"
    return f"{min(whole // 86_400, 999)}d"


def render_span(seconds: float) -> str:
    """A duration in short form: `0.4 s`, `12 s`, `3 m 05 s`, `2 h 07 m`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} m {whole % 60:02} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60:02} m"


def render_time(unix_s: float) -> str:
    """RFC 3339, UTC, milliseconds: `2026-04-22T09:30:00.125Z`. Times out of range are clamped."""
    milliseconds = round(min(max(unix_s, 0.0), 253_402_300_799.0) * 1_000)
    moment = datetime.fromtimestamp(milliseconds // 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1_000:03}Z"
