"""Decides whether a server admits an unannounced peer. A dismissed identity is never readmitted."""

from collections import OrderedDict
from collections.abc import Callable

_MAX_DISMISSED = 1024  # dismissed peers remembered, so that a late frame does not admit one again

Accept = Callable[[bytes], int | None]
"""Called with a peer that is not admitted: returns the epoch to expect, or None to drop its frames.
"""


class Admission:
    """Calls `accept` for unknown peers, but never for a peer that was dismissed."""

    def __init__(self, accept: Accept | None) -> None:
        self._accept = accept
        self._dismissed = OrderedDict[bytes, None]()

    def epoch_for(self, stranger: bytes) -> int | None:
        """The epoch to expect from a peer that is not admitted; None to keep it out."""
        if self._accept is None or stranger in self._dismissed:
            return None
        return self._accept(stranger)

    def mark_dismissed(self, peer: bytes) -> None:
        """Remember that `peer` was dismissed (the last 1024 are remembered)."""
        if self._accept is not None:
            self._dismissed[peer] = None
            if len(self._dismissed) > _MAX_DISMISSED:
                self._dismissed.popitem(last=False)
