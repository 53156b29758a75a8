"""When a turn has been denied too often it ends: it is trying to get around the reviewer. Pure.

Only verdicts of denial count. A review that came to nothing says nothing about the agent.
"""

from collections import deque

IN_A_ROW = 3
OF_THE_LAST = 10
WINDOW = 50


class CircuitBreaker:
    """One for each agent that is reviewed."""

    def __init__(self) -> None:
        self._turn = ""
        self._in_a_row = 0
        self._denials: deque[bool] = deque(maxlen=WINDOW)
        self._tripped = False

    def count(self, turn_id: str, *, denied: bool) -> str:
        """Count one review; return the warning if this one ends the turn, once a turn, else "".

        Another turn starts from nothing; what belongs to no turn counts with the present one.
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
