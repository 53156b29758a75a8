"""Limits of a plan that one server has named with their end, by model: nobody asks until then.

The first refusal counts for the whole tree: each other request is refused here, unsent, with the
same failure, until the limit resets or a person wants it tried now.
"""

from collections.abc import Callable

from .backend import Failure

_MOST_MODELS = 64


class ReachedLimits:
    """Of one server. `unix_s` is the wall clock."""

    def __init__(self, unix_s: Callable[[], float]) -> None:
        self._unix_s = unix_s
        self._by_model: dict[str, Failure] = {}

    def note(self, model: str, failure: Failure) -> bool:
        """True if this failure is a limit that has a known end."""
        is_limit = failure.kind in {"usage_limit_exceeded", "overloaded"}
        if not is_limit or failure.scope != "final" or failure.resets_at_unix_s is None:
            return False
        if len(self._by_model) < _MOST_MODELS or model in self._by_model:
            self._by_model[model] = failure
        return True

    def find(self, model: str) -> Failure | None:
        """The limit that holds for this model now."""
        failure = self._by_model.get(model)
        if failure is None or failure.resets_at_unix_s is None:
            return None
        if self._unix_s() >= failure.resets_at_unix_s:
            del self._by_model[model]
            return None
        return failure

    def lift(self) -> None:
        """Forget them: the next request is sent."""
        self._by_model.clear()
