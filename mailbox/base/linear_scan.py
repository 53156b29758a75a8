"""Scanning a text once, however often one asks: what a text from outside may cost stays linear.

A backtracking pattern such as `[a-z]{8,}[.]` costs the length of a run at each place where it may
begin. Who asks here pays for each character of a kind once, because the end of a run is kept.
"""

import re
from bisect import bisect_right
from functools import cache


class TextScan:
    """One text, and what was learned about it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._runs: dict[str, tuple[list[int], list[int]]] = {}  # kind: starts, ends
        self._digit = (0, -1)  # from where one was searched for, and where the next one stands

    def run_end(self, kind: str, at: int) -> int:
        """The end of the characters of `kind` that begin at `at`, which is `at` if none do.

        `kind` is what stands between the brackets of a regular expression.
        """
        starts, ends = self._runs.setdefault(kind, ([], []))
        place = bisect_right(starts, at)
        if place and at < ends[place - 1]:
            return ends[place - 1]
        next_start = starts[place] if place < len(starts) else len(self.text)
        found = _characters(kind).match(self.text, at, next_start)
        end = at if found is None else found.end()
        if end == next_start < len(self.text):  # joined with the run that was known
            starts[place] = at
            return ends[place]
        if end > at:
            starts.insert(place, at)
            ends.insert(place, end)
        return end

    def holds_digit(self, start: int, end: int) -> bool:
        """True if there is a digit from `start` on, before `end`."""
        since, place = self._digit
        if not since <= start <= place:
            found = _DIGIT.search(self.text, start)
            place = len(self.text) if found is None else found.start()
            self._digit = (start, place)
        return place < end


_DIGIT = re.compile(r"\d")


@cache
def _characters(kind: str) -> re.Pattern[str]:
    return re.compile(f"[{kind}]*")
