"""Making a history shorter without a model: oldest outputs become stubs, then oldest items go.

Rule guarded: pinned words, and what tells the rules of the run, are never touched; a call and its
output stay or go together, and so does what a model said in one response with its thoughts. Pure.
"""

from collections.abc import Iterable, Sequence

import msgspec

from swarm.mailbox.context_markers import STATE_START, is_person_message
from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyItem,
    AnyOutput,
    Compaction,
    InputText,
    Message,
    Reasoning,
)

from .compacted_history import Measure, pinned_messages
from .history_repair import pair_calls
from .pinned_state import PinnedState, state_block, state_in_item


def trim_history(
    items: Sequence[AnyItem], *, room_tokens: int, note: str, state: PinnedState, measure: Measure
) -> tuple[AnyItem, ...] | None:
    """The longest history of at most `room_tokens` that this way leads to.

    None if none does, or if it would not be shorter.

    Args:
        items: The history; calls and outputs paired.
        room_tokens: What may be left, by `measure`.
        note: Told at the end, together with the state, so that the model knows of its loss.
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
    """One message of the harness: `state_in_item` finds the state in it again."""
    return Message(role="user", content=(InputText(text=state_block(state)), InputText(text=note)))


def _is_closing_message(item: AnyItem) -> bool:
    """True for the closing of an earlier cut: the new one says it anew."""
    if not isinstance(item, Message) or state_in_item(item) is None:
        return False
    first = item.content[0]
    return isinstance(first, InputText) and first.text.startswith(STATE_START)


def _removable_groups(items: Sequence[AnyItem]) -> Iterable[set[int]]:
    """What may go, oldest first: a letter, a person's words, or a response with its outputs."""
    pinned = pinned_messages(items)
    pairs = pair_calls(items)
    response: set[int] = set()
    answered = False  # an output came: what a model says next is another response
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
            continue  # it goes with its call
        if response:
            yield response
            response, answered = set[int](), False
        if index not in pinned and _is_removable(item):
            yield {index}
    if response:
        yield response


def _is_model_item(item: AnyItem) -> bool:
    if isinstance(item, AnyCall | Reasoning):
        return True
    return isinstance(item, Message) and item.role == "assistant" and item.author is None


def _is_removable(item: AnyItem) -> bool:
    if isinstance(item, Compaction):
        return False  # all that is left of what was before
    return is_person_message(item) or (isinstance(item, Message) and item.author is not None)
