"""Whether a reader's time is linear in what it reads: measured for n and 4n, generously."""

import time
from contextlib import suppress

_RATIO = 4 * 2.5  # a quadratic reader has 16
_NOISE_S = 0.0125  # what a machine with other work adds to a short measurement
TRIES = 5


def cost_s(read, given, *, expected=()):
    """The processor time of this thread for one call; an expected refusal is an answer too."""
    begin = time.thread_time()
    with suppress(*expected):
        read(given)
    return time.thread_time() - begin


def find_growth(read, make, size, *, expected=(), tries=TRIES):
    """An empty text if `read(make(4 * size))` costs at most a linear share more than with `size`.

    Measured again while it seems to cost more: other work disturbs a measurement only upwards.
    """
    few = many = float("inf")
    little, much = make(size), make(4 * size)
    for _ in range(tries):
        many = min(many, cost_s(read, much, expected=expected))
        if many <= _NOISE_S:
            return ""
        few = min(few, cost_s(read, little, expected=expected))
        if many <= _RATIO * few + _NOISE_S:
            return ""
    return f"{size}: {few:.3f} s, {4 * size}: {many:.3f} s, for {little[:80]!r}…"
