"""How long a review may take, and when no more is asked of a reviewer that does not answer. Pure.

The reviewer may be the same slow model that works. Its time-outs are part of the run's own time: a
review gets a share of what is left of it, and after two in a row without an answer nobody is asked
for a while, so that the agent is told at once and goes on.
"""

_SHARE = 0.1  # of the time that is left until the run's deadline
_LEAST_S = 5.0
_MOST_IN_A_ROW = 2  # time-outs
_PAUSE_S = 600.0  # then nobody is asked


class ReviewPatience:
    """One for each run."""

    def __init__(self, deadline_s: float) -> None:
        """`deadline_s`: what the configuration gives a review at most."""
        self._deadline_s = deadline_s
        self._in_a_row, self._last_s = 0, 0.0

    def allowed_s(self, now_s: float, *, left_s: float | None) -> float:
        """The seconds for a review that begins now; 0: nobody is asked.

        Args:
            now_s: Of the clock that `note` reads, too.
            left_s: Until the run's deadline; None: it has none.
        """
        is_paused = self._in_a_row >= _MOST_IN_A_ROW and now_s - self._last_s < _PAUSE_S
        if is_paused:
            return 0.0
        if left_s is None:
            return self._deadline_s
        return min(self._deadline_s, max(_LEAST_S, left_s * _SHARE))

    def note(self, now_s: float, *, timed_out: bool) -> None:
        """Count the end of a review that was asked for."""
        self._in_a_row = self._in_a_row + 1 if timed_out else 0
        self._last_s = now_s


def not_asked_text() -> str:
    """What an agent reads where no reviewer was asked any more."""
    return (
        "This action was not run: it needs an automatic review, and the reviewer did not answer in "
        f"time {_MOST_IN_A_ROW} times in a row, so it is not asked again for {_PAUSE_S / 60:.0f} "
        "minutes. That says nothing about the action. Find a way that needs no approval, or say in "
        "your answer what is left undone."
    )
