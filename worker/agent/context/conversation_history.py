"""The conversation as the model will see it: encoded once, append-only, with a running digest.

Rule guarded: no operation here takes longer because the history is long, but `replace_last`
and restoring. The gateway holds what was sent; only what came after it travels.
"""

from typing import NamedTuple

import msgspec

from swarm.mailbox.protocol.items import AnyCall, AnyItem, encode_item
from swarm.mailbox.protocol.sampling import chain_digest

from ...event_limits import MOST_ITEM_BYTES, fit_item


class UnsentItems(NamedTuple):
    """What a request carries: the items after `base_count`, and the digest of those before."""

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
        """Add an item; returns its encoding, to be posted as it is. One too large is cut."""
        body = encode_item(item)
        if len(body) > MOST_ITEM_BYTES:  # else the supervisor could not be told of it
            body = encode_item(fit_item(item, size_bytes=len(body)))
        if isinstance(item, AnyCall):
            self.call_ids.add(item.call_id)
        raw = msgspec.Raw(body)
        self._add(raw)
        return raw

    def unsent(self) -> UnsentItems:
        """The items that the gateway has not seen. Sending them is told by `mark_sent`."""
        items = tuple(self._items[self._sent_count :])
        return UnsentItems(self._sent_count, self._sent_digest, items)

    def mark_sent(self) -> None:
        """The gateway will hold everything up to here."""
        self._sent_count, self._sent_digest = len(self._items), self._digest

    def forget_sent(self) -> None:
        """The gateway holds nothing (it is new, or asks for all): the next request is whole."""
        self._sent_count, self._sent_digest = 0, b""

    def all_items(self) -> tuple[msgspec.Raw, ...]:
        """Every item; takes as long as the history is."""
        return tuple(self._items)

    def replace(self, items: tuple[msgspec.Raw, ...]) -> None:
        """Start over with these items (an image taken back); the gateway is sent all again."""
        self._items, self._digest = [], b""
        self.forget_sent()
        for raw in items:
            self._add(raw)

    def _add(self, raw: msgspec.Raw) -> None:
        self._items.append(raw)
        self._digest = chain_digest(self._digest, bytes(raw))
