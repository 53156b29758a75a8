"""Broadcasts every event to the folded state, the person's display and other terminals.

Records come here only after the journal has written them; transient events come here directly. What
the journal did not redact is redacted here, before anybody sees it.
"""

from collections.abc import Callable

import msgspec

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.delivery.feed import Feed
from swarm.mailbox.protocol.control import AnyFeed, Recorded, RunView, ShownState, TransientEvent
from swarm.mailbox.protocol.records import Record

from ..base.delta_redaction import DeltaRedactor
from ..base.run_display import RunDisplay
from ..views.run_state import RunState

_encode = msgspec.msgpack.Encoder().encode


class EventBroadcast:
    """Fans out one stream to the state, the display and the feed. Never waits, never raises."""

    def __init__(
        self, state: RunState, view: RunDisplay, feed: Feed, *, redactor: Redactor
    ) -> None:
        self._state = state
        self._view = view
        self._feed = feed
        self._redactor = DeltaRedactor(redactor)
        self._listeners: list[Callable[[Record], None]] = []

    def listen(self, take: Callable[[Record], None]) -> None:
        """Call `take` with each written record from now on; it neither waits nor raises."""
        self._listeners.append(take)

    def publish_record(self, record: Record) -> None:
        """Show a written record; before it, the rest of the streams that it ends."""
        for rest in self._redactor.end_streams(record):
            self._publish(rest)
        self._publish(Recorded(record=record))
        for take in self._listeners:
            take(record)

    def publish_transient(self, passed: TransientEvent) -> None:
        """Show one transient event; it is not journaled."""
        if (clean := self._redactor.redact(passed)) is not None:
            self._publish(clean)

    def show(self, agent: str, event: ShownState) -> None:
        """Show what no record says of an agent: to everybody, by the way of all other events."""
        self.publish_transient(TransientEvent(agent=agent, event=event))

    def current_view(self) -> RunView:
        """The present state of the whole run, as people see it."""
        return self._state.view()

    @property
    def agents_seen(self) -> int:
        """Number of agents that ever had a process."""
        return self._state.agents_seen

    def _publish(self, feed: AnyFeed) -> None:
        self._state.apply(feed)
        self._view.on_feed(feed)
        if self._feed.watchers:
            self._feed.publish(_encode(feed))
