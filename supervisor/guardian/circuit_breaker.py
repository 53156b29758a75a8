"""Circuit breaker: ends a turn after too many denials. Pure.

Such a turn is taken as an attempt to get around the reviewer. Only denials count. A failed review
says nothing about the agent.
"""

from collections import deque

IN_A_ROW = 3
OF_THE_LAST = 10
WINDOW = 50


class CircuitBreaker:
    """One for each reviewed agent."""

    def __init__(self) -> None:
        self._turn = ""
        self._in_a_row = 0
        self._denials: deque[bool] = deque(maxlen=WINDOW)
        self._tripped = False

    def count(self, turn_id: str, *, denied: bool) -> str:
        """Count one review; return a warning if it ends the turn (at most once a turn), else "".

        A new turn starts at zero; a review without a turn id counts for the current turn.
        """
        if turn_id and turn_id != self._turn:
            self._turn, self._in_a_row, self._tripped = turn_id, 0, False
            self._denials.clear()
        self._denials.append(denied)
        self._in_a_row = self._in_a_row + 1 if denied else 0
        recent = sum(self._denials)
        if self._tripped or not denied or (self._in_a_row < IN_A_ROW and recent < OF_THE_LAST):
            return ""
        self._tripped = True
        return (
            "Automatic approval review rejected too many approval requests for this turn "
            f"({self._in_a_row} consecutive, {recent} in the last {WINDOW} reviews); "
            "interrupting the turn."
        )
