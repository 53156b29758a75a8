"""Sources of ids, randomness and wall-clock time, passed as one argument.

Everything that reaches the journal and differs between runs comes from here, so that a whole tree
can be repeated in a test. Durations use Trio's clock instead.
"""

import os
import random
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from .ids import new_uuid7


class EntropySources(NamedTuple):
    """All that differs between two runs or two starts of a process. Defaults: the real sources."""

    new_id: Callable[[], str] = new_uuid7
    noise: Callable[[], float] = random.random  # in [0, 1)
    unix_s: Callable[[], float] = time.time
    random_bytes: Callable[[int], bytes] = secrets.token_bytes  # of this length
    pid: Callable[[], int] = os.getpid  # of this process
    rng: random.Random | None = None  # for choices from a list; None: a fresh generator


SYSTEM_ENTROPY = EntropySources()
