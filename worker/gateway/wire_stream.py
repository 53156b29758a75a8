"""Base class of the stream decoders: a response is complete, or cut at one place.

Unreadable data cuts the stream and is never skipped, so an agent never receives text that was
joined around a gap. Items that were complete before the cut stay valid.
"""

from abc import ABC, abstractmethod

from .backend import AnyResponseEvent, Failure, NewId, SampleError
from .event_payloads import UnreadableEvent
from .failures import cut_off, unreadable
from .text_accumulator import ResponseSize, ResponseTooLong


class WireStream(ABC):
    """One response. Feed payloads until `finished`; then stop reading."""

    def __init__(self, *, provider: str, new_id: NewId) -> None:
        self._provider, self._new_id = provider, new_id
        self._size = ResponseSize()
        self.finished = False

    def feed(self, payload: bytes) -> list[AnyResponseEvent]:
        """The events of one payload; none after the end.

        Raises SampleError if the response failed.
        """
        if self.finished:
            return []
        try:
            return self._feed(payload)
        except UnreadableEvent as error:
            raise SampleError(unreadable(provider=self._provider, why=str(error))) from error
        except ResponseTooLong as error:
            raise SampleError(self._too_long(error)) from error

    def finish(self) -> list[AnyResponseEvent]:
        """The stream has ended. Raises SampleError unless the response was complete."""
        if self.finished:
            return []
        try:
            return self._finish()
        except UnreadableEvent as error:
            raise SampleError(unreadable(provider=self._provider, why=str(error))) from error

    @property
    def progress(self) -> int:
        """Grows with the answer; keep-alives add nothing."""
        return self._size.chars

    @abstractmethod
    def _feed(self, payload: bytes) -> list[AnyResponseEvent]:
        """Raises UnreadableEvent, ResponseTooLong and SampleError."""

    @abstractmethod
    def _finish(self) -> list[AnyResponseEvent]:
        """Raises UnreadableEvent and SampleError."""

    def _cut_off(self, why: str) -> SampleError:
        return SampleError(cut_off("final", provider=self._provider, why=why))

    def _too_long(self, error: ResponseTooLong) -> Failure:
        text = f"{self._provider}: {error}; ask for less at once, or lower `max_output_tokens`"
        return Failure(kind="bad_response", message=text)
