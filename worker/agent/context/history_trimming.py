"""Shorten a history without a model: oldest outputs become stubs, then oldest items are removed.

Pinned messages and context messages are never touched. A call and its output stay or go together,
and so do the items of one response, reasoning included. Pure.
"""

from collections.abc import Iterable, Sequence

import msgspec

from swarm.mailbox.contents.context_markers import STATE_START, is_person_message
from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyItem,
    AnyOutput,
    Compaction,
    InputText,
    Message,
    ProviderItem,
    Reasoning,
)

from .compacted_history import Measure, pinned_messages
from .history_repair import pair_calls
from .pinned_state import PinnedState, state_block, state_in_item


def trim_history(
    items: Sequence[AnyItem], *, room_tokens: int, note: str, state: PinnedState, measure: Measure
) -> tuple[AnyItem, ...] | None:
    """Return the longest history of at most `room_tokens` that trimming yields.

    Returns None if it cannot be trimmed that far, or if the result would not be shorter.

    Args:
        items: The history; calls and outputs paired.
        room_tokens: Tokens that may remain, by `measure`.
        note: Added at the end, together with the state, so that the model knows of the removal.
        state: The plan, changed files and agents.
        measure: Tokens of an item.
    """
    closing = _closing_message(note, state)
    kept: list[AnyItem | None] = [None if _is_closing_message(item) else item for item in items]
    sizes = [0 if item is None else measure(item) for item in kept]
    before = sum(map(measure, items))
    excess = sum(sizes) + measure(closing) - room_tokens
    for index, item in enumerate(kept):
        if excess <= 0:
            break
        if isinstance(item, AnyOutput):
            stub = _stub_output(item, sizes[index])
            if (saved := sizes[index] - measure(stub)) > 0:
                kept[index] = stub
                sizes[index] -= saved
                excess -= saved
    for group in _removable_groups(items):
        if excess <= 0:
            break
        for index in group:
            excess -= sizes[index]
            kept[index], sizes[index] = None, 0
    if excess > 0 or sum(sizes) + measure(closing) >= before:
        return None
    return (*(item for item in kept if item is not None), closing)


def _stub_output(output: AnyOutput, size: int) -> AnyOutput:
    text = f"[output removed to make room, about {size} tokens; call again if it is needed]"
    return msgspec.structs.replace(output, output=text)


def _closing_message(note: str, state: PinnedState) -> Message:
    """Return the message with state and note; `state_in_item` finds the state in it again."""
    return Message(role="user", content=(InputText(text=state_block(state)), InputText(text=note)))


def _is_closing_message(item: AnyItem) -> bool:
    """True for the closing message of an earlier trimming, which the new one replaces."""
    if not isinstance(item, Message) or state_in_item(item) is None:
        return False
    first = item.content[0]
    return isinstance(first, InputText) and first.text.startswith(STATE_START)


def _removable_groups(items: Sequence[AnyItem]) -> Iterable[set[int]]:
    """Yield removable groups, oldest first: mail, input, or a response with its outputs."""
    pinned = pinned_messages(items)
    pairs = pair_calls(items)
    response: set[int] = set()
    answered = False  # an output came: the next model item belongs to another response
    for index, item in enumerate(items):
        if _is_model_item(item):
            if answered:
                yield response
                response, answered = set[int](), False
            response.add(index)
            if index in pairs:
                response.add(pairs[index])
            continue
        if isinstance(item, AnyOutput):
            answered = bool(response)
            continue  # it is removed with its call
        if response:
            yield response
            response, answered = set[int](), False
        if index not in pinned and _is_removable(item):
            yield {index}
    if response:
        yield response


def _is_model_item(item: AnyItem) -> bool:
    if isinstance(item, AnyCall | Reasoning | ProviderItem):
        return True
    return isinstance(item, Message) and item.role == "assistant" and item.author is None


def _is_removable(item: AnyItem) -> bool:
    if isinstance(item, Compaction):
        return False  # it stands for everything before it
    return is_person_message(item) or (isinstance(item, Message) and item.author is not None)
