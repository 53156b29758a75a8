"""A time limit that stands still while somebody is asked."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class RestingLimit:
    """Cancels `scope` when it is reached; the caller enters the scope, once."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.scope = trio.CancelScope(deadline=trio.current_time() + limit_s)
        self._resting, self._left_s = 0, limit_s

    @contextmanager
    def resting(self) -> Iterator[None]:
        """The time of this block does not count; blocks may overlap."""
        if not self._resting:
            self._left_s = self.scope.deadline - trio.current_time()
            self._move(float("inf"))
        self._resting += 1
        try:
            yield
        finally:
            self._resting -= 1
            if not self._resting:
                self._move(trio.current_time() + self._left_s)

    def _move(self, deadline: float) -> None:
        self.scope.deadline = deadline
