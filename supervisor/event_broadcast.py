"""Where everything that happened is shown: the folded view, the person's view, other terminals.

Called only after the journal has written (records), or directly for passing events. Rule guarded:
what was not redacted by the journal is redacted here, before anybody sees it.
"""

from collections.abc import Iterable

import msgspec

from swarm.mailbox.feed import Feed
from swarm.mailbox.protocol.control import AnyFeed, Recorded, RunView, TransientEvent
from swarm.mailbox.protocol.records import Record
from swarm.mailbox.redact import Redactor

from .console.run_state import RunState
from .delta_redaction import DeltaRedactor
from .run_display import RunDisplay

_encode = msgspec.msgpack.Encoder().encode


class EventBroadcast:
    """Fans one stream out to the state, the view and the feed. Never waits, never raises."""

    def __init__(
        self, state: RunState, view: RunDisplay, feed: Feed, *, redactor: Redactor
    ) -> None:
        self.state, self._view, self._feed = state, view, feed
        self._redactor = DeltaRedactor(redactor)

    def publish_record(self, record: Record) -> None:
        """Show one record that is written, and before it the last of the words that it ends."""
        for rest in self._redactor.end_streams(record):
            self._publish(rest)
        self._publish(Recorded(record=record))

    def load_past(self, records: Iterable[Record]) -> None:
        """Fold what happened before a resume, without showing it again."""
        for record in records:
            self.state.apply_past(record)

    def publish_transient(self, passed: TransientEvent) -> None:
        """Show one passing event; it is written nowhere."""
        if (clean := self._redactor.redact(passed)) is not None:
            self._publish(clean)

    def current_view(self) -> RunView:
        """The whole run as people see it now."""
        return self.state.view()

    def _publish(self, feed: AnyFeed) -> None:
        self.state.apply(feed)
        self._view.on_feed(feed)
        if self._feed.watchers:
            self._feed.publish(_encode(feed))
