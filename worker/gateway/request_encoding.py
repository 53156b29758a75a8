"""What the HTTP wires share when they encode: the head of a request, and how items are kept.

The rule: an item is encoded once, when it arrives; a body is a join of bytes. Nothing here walks a
history, and a head (instructions, tools, settings) is encoded once for all agents that share it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

import msgspec

from swarm.mailbox.protocol.items import AnyItem
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.settings import Summary, Verbosity

to_json = msgspec.json.Encoder().encode
_HEADS_KEPT = 16


class HeadKey(msgspec.Struct, frozen=True):
    """All that a head is made of; equal keys have equal heads."""

    model: ModelInfo
    instructions: str
    tools: tuple[ToolSpec, ...] = ()
    effort: str | None = None
    output_schema: bytes | None = None
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    compacts: bool = False  # the body of the provider's own compaction


def is_strict(schema: bytes) -> bool:
    """True if a provider may be asked to hold a model to this JSON schema strictly.

    Providers that can refuse a schema, and the whole request with it, in which an object leaves a
    property optional or open.
    """
    try:
        return _is_closed(msgspec.json.decode(schema))
    except (msgspec.DecodeError, RecursionError):
        return False


def _is_closed(node: object) -> bool:
    if isinstance(node, list):
        return all(map(_is_closed, cast("list[object]", node)))
    if not isinstance(node, dict):
        return True
    table = cast("dict[str, object]", node)
    properties, required = table.get("properties"), table.get("required", [])
    if isinstance(properties, dict):
        named = cast("list[object]", required) if isinstance(required, list) else []
        all_named = all(name in named for name in cast("dict[str, object]", properties))
        if not all_named or table.get("additionalProperties") is not False:
            return False
    return all(map(_is_closed, table.values()))


class RequestHead(msgspec.Struct, frozen=True):
    """The bytes before and after the items."""

    before: bytes
    after: bytes


class RequestHeadCache:
    """The heads made lately. Agents of one role share theirs."""

    def __init__(self, make: Callable[[HeadKey], RequestHead]) -> None:
        self._make = make
        self._kept: list[tuple[HeadKey, RequestHead]] = []  # newest last

    def get(self, key: HeadKey) -> RequestHead:
        """The head of this key; encoded only if none of the last few is equal."""
        for place in range(len(self._kept) - 1, -1, -1):
            kept, head = self._kept[place]
            if kept == key:
                return head
        head = self._make(key)
        self._kept.append((key, head))
        del self._kept[:-_HEADS_KEPT]
        return head


class EncodingContext(msgspec.Struct, frozen=True):
    """What encoding an item depends on, beside the item."""

    blobs_dir: Path
    model: ModelInfo
    tolerant: bool = False  # a local server: its chat template may reject unusual roles


class ItemStore(Protocol):
    """The items of one conversation in the form of one wire."""

    def append(self, item: AnyItem) -> None:
        """Take one more item, and encode it now."""
        ...

    def rewind(self, count: int) -> bool:
        """Keep only the first `count` items; False if that cannot be done (nothing changed)."""
        ...

    def clear(self) -> None:
        """Forget all."""
        ...

    def items(self) -> tuple[AnyItem, ...]:
        """The items themselves, where the wire keeps them; else ()."""
        ...

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        """The parts of a request's body; () where the wire has none."""
        ...

    def with_partial(self, key: HeadKey, cache_key: str, text: str) -> tuple[bytes, ...]:
        """The body with an assistant's message at its end that the model goes on with; () where
        there is none. Nothing of it is kept.
        """
        ...

    def without_thinking(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        """The body from now on without signed thinking; () where there is none."""
        ...


class UnencodedItemStore:
    """For backends in this process (a script, the local model): the items as they are."""

    def __init__(self) -> None:
        self._items: list[AnyItem] = []

    def append(self, item: AnyItem) -> None:
        self._items.append(item)

    def rewind(self, count: int) -> bool:
        del self._items[count:]
        return True

    def clear(self) -> None:
        self._items.clear()

    def items(self) -> tuple[AnyItem, ...]:
        return tuple(self._items)

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        return ()

    def with_partial(self, key: HeadKey, cache_key: str, text: str) -> tuple[bytes, ...]:
        return ()

    def without_thinking(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        return ()
