"""Who may come in without being named before. The rule it guards: an identity has one life."""

from collections import OrderedDict
from collections.abc import Callable

_MAX_DISMISSED = 1024  # dismissed peers remembered, so that a straggling frame opens nothing

Accept = Callable[[bytes], int | None]
"""For a peer that is not admitted: the epoch to expect of it, or None to drop its frames."""


class Admission:
    """Asks `accept` about strangers; who was dismissed is not asked about again."""

    def __init__(self, accept: Accept | None) -> None:
        self._accept = accept
        self._dismissed = OrderedDict[bytes, None]()

    def epoch_for(self, stranger: bytes) -> int | None:
        """What to expect of a peer that is not admitted; None: it stays outside."""
        if self._accept is None or stranger in self._dismissed:
            return None
        return self._accept(stranger)

    def mark_dismissed(self, peer: bytes) -> None:
        """It was dismissed."""
        if self._accept is not None:
            self._dismissed[peer] = None
            if len(self._dismissed) > _MAX_DISMISSED:
                self._dismissed.popitem(last=False)
