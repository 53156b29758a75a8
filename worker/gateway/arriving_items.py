"""Items of a Responses stream while they arrive: what their deltas have said so far. Pure.

`response.output_item.done` is authoritative. Some servers leave a text or the arguments out of it,
or never send it: then the deltas are what was said, if the response itself came to its end.
"""

from collections.abc import Mapping

import msgspec

from .sse import ResponseSize, TextAccumulator, is_object


class ArrivingItem:
    """One item that arrives. `has_begun`: the server said so itself."""

    def __init__(self, item_id: str, kind: str, size: ResponseSize) -> None:
        self.item_id = item_id
        self.kind = kind
        self.has_begun = False
        self.call_id: str | int | None = None
        self.name: str | None = None
        self.pieces = TextAccumulator(size)  # of its text, its arguments or its input

    def said(self) -> str:
        """What has arrived. Raises UnreadableEvent if half a character is the last of it."""
        return self.pieces.whole()

    def is_whole(self) -> bool:
        """True if this can be all of it, now that the response has come to its end."""
        said = self.said()
        return is_object(said) if self.kind == "function_call" else bool(said)


class ArrivingItems:
    """The items of one response, in their order."""

    def __init__(self, size: ResponseSize) -> None:
        self._size = size
        self._arriving: dict[tuple[str, str], ArrivingItem] = {}  # by id and kind
        self._told_ids: set[tuple[str, str]] = set()
        self.told: dict[str, int] = {}  # by kind: how many items were told as whole
        self.active = ""  # the item of deltas without an id

    def begin(self, item_id: str, kind: str) -> ArrivingItem:
        """An item begins; one that is said to begin twice has begun once."""
        self.active = item_id
        item = self.of(item_id, kind)
        item.has_begun = True
        return item

    def of(self, item_id: str, kind: str) -> ArrivingItem:
        """The item that a delta belongs to."""
        key = (item_id or self.active, kind)
        if key not in self._arriving:
            self._size.begin_item()
            self._arriving[key] = ArrivingItem(*key, self._size)
        return self._arriving[key]

    def take(self, item_id: str, kind: str, call_id: str | int | None) -> ArrivingItem | None:
        """An item is told as whole: what arrived of it before. Some servers change its id."""
        self._size.begin_item()
        self.told[kind] = self.told.get(kind, 0) + 1
        if item_id:
            self._told_ids.add((item_id, kind))
        begun = [one for one in self._arriving.values() if one.kind == kind and one.has_begun]
        named = [one for one in begun if call_id is not None and one.call_id == call_id]
        found = next(iter(named or begun), None)
        key = (item_id, kind)
        if key not in self._arriving and found is not None:
            key = (found.item_id, kind)
        return self._arriving.pop(key, None)

    def was_told(self, item_id: str, kind: str) -> bool:
        """True if this item was told as whole before."""
        return (item_id, kind) in self._told_ids

    def unfinished(self, kinds: frozenset[str]) -> list[ArrivingItem]:
        """Those of these kinds that have begun, and were not told as whole."""
        return [one for one in self._arriving.values() if one.has_begun and one.kind in kinds]

    def told_in_pieces(self, kinds: frozenset[str]) -> list[ArrivingItem]:
        """What an answer consists of whose server told no item as whole."""
        arriving = [one for one in self._arriving.values() if one.kind in kinds]
        return [one for one in arriving if one.has_begun or one.said()]


def untold(items: list[tuple[str, msgspec.Raw]], told: Mapping[str, int]) -> list[msgspec.Raw]:
    """Of the items of a response, as its end repeats them, those that were not told before.

    Some servers give them other ids at the end; but as many of each kind as were told, in their
    order, are the same.
    """
    left, missing = dict(told), list[msgspec.Raw]()
    for kind, raw in items:
        left[kind] = left.get(kind, 0) - 1
        if left[kind] < 0:
            missing.append(raw)
    return missing
