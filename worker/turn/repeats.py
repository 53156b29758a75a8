"""When a model does the same again and again: it is told, then the turn ends. Pure.

Rule guarded: a turn that learns nothing new comes to an end by itself. Waiting is no fault: what
takes long counts little, and what still brings something new counts less. A wait counts only where
the same wait has ended in the very same way before, and then has much longer.
"""

import hashlib
from collections.abc import Iterable, Sequence
from enum import Enum

from swarm.mailbox.protocol.base import Value

TELL_AT, STOP_AT = 30, 60  # weights of one streak
QUICK, SLOW = 5, 1  # of a response whose calls and ends all came before
NEWS = 2  # of one whose calls all came before, but not with these ends; 0 if it took long
LONG_S = 5.0
TELL_WAITS_AT, STOP_WAITS_AT = 60, 600  # waits without any change; told, a model can wait longer
WAITING_TOOLS = frozenset({"write_stdin", "wait_agent"})  # while they succeed, they only wait
_REMEMBERED = 256  # responses of one turn


class Did(Value):
    """One call of a response, and how it ended."""

    name: str
    arguments: str
    status: str
    end: str = ""  # its output as people see it: without times and ids
    seconds: float = 0.0


class Verdict(Enum):
    FINE = "go on"
    TELL = "tell the model, once in a streak"
    STOP = "end the turn"


class Streak:
    """The responses of one turn, as far as they are needed to see that nothing new comes."""

    def __init__(self) -> None:
        self.responses = 0  # of the present streak
        self.waits = 0  # in a row, that ended as they had before
        self.is_wait = False  # the latest verdict is about those
        self._weight = 0
        self._told = False
        self._seen: dict[bytes, None] = {}  # a dict keeps order, so the oldest can be dropped

    @property
    def times(self) -> int:
        """How often the latest verdict's calls were made without any news."""
        return self.waits if self.is_wait else self.responses

    def add(self, calls: Sequence[Did]) -> Verdict:
        """A response's calls have ended. A response without calls is none of this file's matter."""
        if not calls:
            return Verdict.FINE
        self.is_wait = all(_only_waits(one) for one in calls)
        if self.is_wait:
            return self._add_waits(calls)
        asked = _digest(part for one in calls for part in (one.name, one.arguments))
        ended = _ends_of(calls)
        knew_asked, knew_ended = self._knows(asked), self._knows(ended)
        if not knew_asked:
            self.responses, self.waits, self._weight, self._told = 0, 0, 0, False
            return Verdict.FINE
        if not knew_ended:
            self.waits = 0
        is_long = any(one.seconds >= LONG_S for one in calls)
        self.responses += 1
        if knew_ended:
            self._weight += SLOW if is_long else QUICK
        elif not is_long:
            self._weight += NEWS
        return self._judge()

    def _add_waits(self, calls: Sequence[Did]) -> Verdict:
        if not self._knows(_ends_of(calls)):
            self.waits = 0
            return Verdict.FINE
        self.waits += 1
        if self.waits >= STOP_WAITS_AT:
            return Verdict.STOP
        return Verdict.TELL if self.waits == TELL_WAITS_AT else Verdict.FINE

    def _judge(self) -> Verdict:
        if self._weight >= STOP_AT:
            return Verdict.STOP
        if self._weight >= TELL_AT and not self._told:
            self._told = True
            return Verdict.TELL
        return Verdict.FINE

    def _knows(self, digest: bytes) -> bool:
        known = digest in self._seen
        self._seen.pop(digest, None)
        self._seen[digest] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return known


def _only_waits(call: Did) -> bool:
    return call.name in WAITING_TOOLS and call.status == "completed"


def _ends_of(calls: Sequence[Did]) -> bytes:
    return _digest(part for one in calls for part in (one.name, one.arguments, one.status, one.end))


def _digest(parts: Iterable[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8) + raw)
    return digest.digest()
