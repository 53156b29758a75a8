"""The conversation as the model sees it: encoded once, append-only, with a running digest.

The gateway holds what was sent; a request carries only the items after it. Only `replace`,
`all_items`, restoring and a complete resend take longer for a longer history.
"""

from typing import NamedTuple

import msgspec

from swarm.mailbox.protocol.items import AnyCall, AnyItem, encode_item
from swarm.mailbox.protocol.sampling import chain_digest

from ...base.event_limits import MOST_ITEM_BYTES, fit_item


class UnsentItems(NamedTuple):
    """Content of a request: the items after `base_count`, and the digest of the items before."""

    base_count: int
    base_digest: bytes
    items: tuple[msgspec.Raw, ...]


class ConversationHistory:
    """Items in order, each as its msgpack encoding."""

    def __init__(self, encoded: tuple[msgspec.Raw, ...] = ()) -> None:
        self._items: list[msgspec.Raw] = []
        self._digest = b""
        self.call_ids: set[str] = set()  # of every call that was ever appended
        self._sent_count, self._sent_digest = 0, b""
        for raw in encoded:
            self._add(raw)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def digest(self) -> bytes:
        """The chain digest over all items."""
        return self._digest

    def append(self, item: AnyItem) -> msgspec.Raw:
        """Add an item and return its encoding, to be posted as is. An item too large is cut."""
        body = encode_item(item)
        # Otherwise the event would not fit into a message to the supervisor.
        if len(body) > MOST_ITEM_BYTES:
            body = encode_item(fit_item(item, size_bytes=len(body)))
        if isinstance(item, AnyCall):
            self.call_ids.add(item.call_id)
        raw = msgspec.Raw(body)
        self._add(raw)
        return raw

    def unsent(self) -> UnsentItems:
        """Return the items that the gateway does not hold; call `mark_sent` when they are sent."""
        items = tuple(self._items[self._sent_count :])
        return UnsentItems(self._sent_count, self._sent_digest, items)

    def mark_sent(self) -> None:
        """Note that the gateway will hold everything up to here."""
        self._sent_count, self._sent_digest = len(self._items), self._digest

    def forget_sent(self) -> None:
        """The gateway holds nothing (restarted, or requests all): the next request carries all."""
        self._sent_count, self._sent_digest = 0, b""

    def all_items(self) -> tuple[msgspec.Raw, ...]:
        """Return every item; takes time in proportion to the history."""
        return tuple(self._items)

    def replace(self, items: tuple[msgspec.Raw, ...]) -> None:
        """Replace all items (compaction, rollback, removed image); the gateway gets all again."""
        self._items, self._digest = [], b""
        self.forget_sent()
        for raw in items:
            self._add(raw)

    def _add(self, raw: msgspec.Raw) -> None:
        self._items.append(raw)
        self._digest = chain_digest(self._digest, bytes(raw))
