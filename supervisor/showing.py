"""Where everything that happened is shown: the folded view, the person's view, other terminals.

Called only after the journal has written (records), or directly for passing events. Rule guarded:
what was not redacted by the journal is redacted here, before anybody sees it.
"""

from collections.abc import Iterable

import msgspec

from swarm.mailbox.feed import Feed
from swarm.mailbox.protocol.control import AnyFeed, Passed, Recorded, RunView
from swarm.mailbox.protocol.records import Record
from swarm.mailbox.redact import Redactor

from .console.reduce import RunState
from .passing import PassingWords
from .view import View

_encode = msgspec.msgpack.Encoder().encode


class Showing:
    """Fans one stream out to the state, the view and the feed. Never waits, never raises."""

    def __init__(self, state: RunState, view: View, feed: Feed, *, redactor: Redactor) -> None:
        self.state, self._view, self._feed = state, view, feed
        self._words = PassingWords(redactor)

    def record(self, record: Record) -> None:
        """Show one record that is written, and before it the last of the words that it ends."""
        for rest in self._words.end(record):
            self._show(rest)
        self._show(Recorded(record=record))

    def remember(self, records: Iterable[Record]) -> None:
        """Fold what happened before a resume, without showing it again."""
        for record in records:
            self.state.apply_past(record)

    def passing(self, passed: Passed) -> None:
        """Show one passing event; it is written nowhere."""
        if (clean := self._words.clean(passed)) is not None:
            self._show(clean)

    def current(self) -> RunView:
        """The whole run as people see it now."""
        return self.state.view()

    def _show(self, feed: AnyFeed) -> None:
        self.state.apply(feed)
        self._view.on_feed(feed)
        if self._feed.watchers:
            self._feed.publish(_encode(feed))
