"""Arrange the items of a conversation for a server that takes only some neighbours. Pure.

For the `responses` wire, whose items are sent one by one. The stores of the other wires group their
messages as these wires require, with the same words in between.
"""

from collections.abc import Iterable, Iterator

import msgspec

from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCallOutput,
    FunctionCallOutput,
    Message,
    text_message,
    text_of,
)

from .dialect import BEGINNING, NOTED, Dialect


def later_developer_text(text: str) -> str:
    """What a developer says in mid-conversation, in a user's message."""
    return f"<developer>\n{text}\n</developer>"


def arrange_items(items: Iterable[AnyItem], dialect: Dialect) -> list[AnyItem]:
    """The items as the server takes them."""
    arranged: list[AnyItem] = []
    for item in _with_roles(items, dialect):
        last = arranged[-1] if arranged else None
        if isinstance(item, Message):
            if item.role == "user" and not dialect.user_after_tool and _is_output(last):
                arranged.append(text_message("assistant", NOTED))
            elif dialect.alternates and isinstance(last, Message) and last.role == item.role:
                arranged[-1] = _joined(last, item)
                continue
            elif dialect.alternates and item.role == "assistant" and not _has_user(arranged):
                arranged.append(text_message("user", BEGINNING))
        arranged.append(item)
    return arranged


def _has_user(items: list[AnyItem]) -> bool:
    return any(isinstance(item, Message) and item.role == "user" for item in items)


def _with_roles(items: Iterable[AnyItem], dialect: Dialect) -> Iterator[AnyItem]:
    is_start = True
    for item in items:
        if isinstance(item, Message) and item.role == "developer" and not item.author:
            if not is_start and not (dialect.later_developer and dialect.developer):
                yield text_message("user", later_developer_text(text_of(item.content)))
                continue
        else:
            is_start = False
        yield item


def _is_output(item: AnyItem | None) -> bool:
    return isinstance(item, FunctionCallOutput | CustomToolCallOutput)


def _joined(first: Message, second: Message) -> Message:
    return msgspec.structs.replace(first, content=(*first.content, *second.content))
