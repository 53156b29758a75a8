"""Where ids, noise and the wall clock come from: one value that is handed down, never asked aside.

Rule guarded: whatever reaches the journal and would differ from one run to the next comes from
here, so that a whole tree can be repeated. Durations are Trio's clock and need nothing of this.
"""

import os
import random
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from .ids import new_uuid7


class EntropySources(NamedTuple):
    """What differs from one run, or one life, to the next. The defaults are the real ones."""

    new_id: Callable[[], str] = new_uuid7
    noise: Callable[[], float] = random.random  # in [0, 1)
    unix_s: Callable[[], float] = time.time
    random_bytes: Callable[[int], bytes] = secrets.token_bytes  # so many random bytes
    pid: Callable[[], int] = os.getpid  # of the process that this is
    rng: random.Random | None = None  # for what is drawn from a list; None: fresh ones


SYSTEM_ENTROPY = EntropySources()
