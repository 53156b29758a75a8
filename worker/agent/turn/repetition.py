"""Detection of a model that repeats its calls: it is warned, then the turn ends. No I/O.

A turn that learns nothing new ends by itself. Waiting is allowed: slow calls count little, and
repeated calls with a new result count less. A wait counts only if the same wait ended in the same
way before, and its limits are much higher.
"""

import hashlib
from collections.abc import Iterable, Sequence
from enum import Enum

from swarm.mailbox.protocol.values.base import Value

WARN_WEIGHT, STOP_WEIGHT = 30, 60  # weights of one streak
# Of a response whose calls and results all came before.
QUICK_REPEAT_WEIGHT, SLOW_REPEAT_WEIGHT = 5, 1
NEW_RESULT_WEIGHT = 2  # of a response with known calls and new results; 0 if it took long
SLOW_CALL_S = 5.0
# Waits without any change; after the warning a model can wait longer.
WARN_WAITS, STOP_WAITS = 60, 600
WAITING_TOOLS = frozenset({"write_stdin", "wait_agent"})  # while they succeed, they only wait
_MAX_SEEN_DIGESTS = 256  # responses of one turn


class CallRecord(Value):
    """One call of a response, and how it ended."""

    name: str
    arguments: str
    status: str
    end: str = ""  # its output as people see it: without times and ids
    seconds: float = 0.0


class RepetitionVerdict(Enum):
    FINE = "go on"
    WARN = "tell the model, once in a streak"
    STOP = "end the turn"


class RepetitionDetector:
    """Digests of one turn's responses, to detect that nothing new comes."""

    def __init__(self) -> None:
        self.responses = 0  # of the present streak
        self.waits = 0  # in a row, with the same result as before
        self.is_wait = False  # whether the latest verdict is about waits
        self._weight = 0
        self._warned = False
        self._seen: dict[bytes, None] = {}  # a dict keeps order, so the oldest can be dropped

    @property
    def times(self) -> int:
        """How often the latest verdict's calls were repeated without a new result."""
        return self.waits if self.is_wait else self.responses

    def add(self, calls: Sequence[CallRecord]) -> RepetitionVerdict:
        """Judge a response whose calls have ended. A response without calls is always FINE."""
        if not calls:
            return RepetitionVerdict.FINE
        self.is_wait = all(_only_waits(one) for one in calls)
        if self.is_wait:
            return self._add_waits(calls)
        asked = _digest(part for one in calls for part in (one.name, one.arguments))
        ended = _outcomes_digest(calls)
        knew_asked, knew_ended = self._has_seen(asked), self._has_seen(ended)
        if not knew_asked:
            self.responses, self.waits, self._weight, self._warned = 0, 0, 0, False
            return RepetitionVerdict.FINE
        if not knew_ended:
            self.waits = 0
        is_long = any(one.seconds >= SLOW_CALL_S for one in calls)
        self.responses += 1
        if knew_ended:
            self._weight += SLOW_REPEAT_WEIGHT if is_long else QUICK_REPEAT_WEIGHT
        elif not is_long:
            self._weight += NEW_RESULT_WEIGHT
        return self._judge()

    def _add_waits(self, calls: Sequence[CallRecord]) -> RepetitionVerdict:
        if not self._has_seen(_outcomes_digest(calls)):
            self.waits = 0
            return RepetitionVerdict.FINE
        self.waits += 1
        if self.waits >= STOP_WAITS:
            return RepetitionVerdict.STOP
        return RepetitionVerdict.WARN if self.waits == WARN_WAITS else RepetitionVerdict.FINE

    def _judge(self) -> RepetitionVerdict:
        if self._weight >= STOP_WEIGHT:
            return RepetitionVerdict.STOP
        if self._weight >= WARN_WEIGHT and not self._warned:
            self._warned = True
            return RepetitionVerdict.WARN
        return RepetitionVerdict.FINE

    def _has_seen(self, digest: bytes) -> bool:
        known = digest in self._seen
        self._seen.pop(digest, None)
        self._seen[digest] = None
        if len(self._seen) > _MAX_SEEN_DIGESTS:
            del self._seen[next(iter(self._seen))]
        return known


def _only_waits(call: CallRecord) -> bool:
    return call.name in WAITING_TOOLS and call.status == "completed"


def _outcomes_digest(calls: Sequence[CallRecord]) -> bytes:
    return _digest(part for one in calls for part in (one.name, one.arguments, one.status, one.end))


def _digest(parts: Iterable[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8) + raw)
    return digest.digest()
