"""Findings: facts that agents of a run publish for each other, as the journal has them.

Shared by the parts that read them.
"""

from .base import Tagged, Value

MAX_FACT_CHARS = 500
MAX_PLACE_CHARS = 300  # of a finding's file


class Finding(Value):
    """One fact in one line, in the words of the agent that published it."""

    number: int  # from 1, over the whole run
    author: str  # agent path
    fact: str
    file: str = ""  # relative to the run's folder if inside, else absolute
    lines: str = ""  # "12" or "12-40"

    @property
    def place(self) -> str:
        """The file and its lines, as `file:12-40`; "" without a file."""
        return f"{self.file}:{self.lines}" if self.file and self.lines else self.file


class FindingPublished(Tagged):
    """Journaled before any other agent gets it."""

    finding: Finding
