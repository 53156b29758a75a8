"""Repair of a restored history: every call has one output, every output has its call.

The model is told that a call was interrupted when its process died; the call is never run again. A
running agent keeps its history complete, so the repair is needed at the start and after a rollback.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import msgspec

from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyItem,
    AnyOutput,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    ProviderItem,
    Reasoning,
)
from swarm.mailbox.protocol.spec import EndedCall
from swarm.mailbox.protocol.values.base import Value

ABORTED = "aborted"
INTERRUPTED = (
    "interrupted: the process that ran this call ended before the call did. It was not run again "
    "and may have run in part; check its effects before you repeat it."
)
ENDED = (
    "This call had ended ({status}{code}) when the process that made it died. It was not run "
    "again. What was kept of its output:\n{output}"
)
IMAGE_REMOVED = "[the image was left out: the model's provider could not read it]"


class RepairedHistory(Value):
    """`items` is the whole history. `added` outputs stand at its end and are not yet journaled."""

    items: tuple[AnyItem, ...]
    added: tuple[AnyOutput, ...] = ()


def synthetic_output(call: AnyCall, text: str, *, success: bool | None = False) -> AnyOutput:
    """Return an output item of the kind that the call requires."""
    kind = CustomToolCallOutput if isinstance(call, CustomToolCall) else FunctionCallOutput
    return kind(call_id=call.call_id, output=text, success=success)


def repair_history(
    items: tuple[AnyItem, ...],
    *,
    interrupted: Collection[str] = (),
    ended: Mapping[str, EndedCall] = MappingProxyType({}),
) -> RepairedHistory:
    """Drop stray and second outputs; add a synthetic output to each call without one.

    Outputs of calls in the last response are added at the end, in call order. Those of older calls
    stand right after the items of their response, where strict servers require them.

    Args:
        items: The history as journaled.
        interrupted: Ids of calls that were running when their process ended.
        ended: Calls whose end was journaled, but not their output.
    """
    kept, unanswered = _drop_stray_outputs(items)
    whole: list[AnyItem] = []
    waiting: list[AnyCall] = []
    for item in kept:
        if waiting and not _is_response_item(item):
            whole.extend(_missing_output(call, interrupted, ended) for call in waiting)
            waiting.clear()
        whole.append(item)
        if isinstance(item, AnyCall) and id(item) in unanswered:
            waiting.append(item)
    added = tuple(_missing_output(call, interrupted, ended) for call in waiting)
    return RepairedHistory(items=(*whole, *added), added=added)


def _drop_stray_outputs(items: tuple[AnyItem, ...]) -> tuple[list[AnyItem], set[int]]:
    """Return the items without stray outputs, and the identities of the calls without output.

    Some servers restart call ids in each response, so an id may repeat: an output belongs to the
    oldest open call with its id.
    """
    kept: list[AnyItem] = []
    open_calls: dict[str, deque[int]] = {}
    for item in items:
        if isinstance(item, AnyCall):
            open_calls.setdefault(item.call_id, deque()).append(id(item))
        elif isinstance(item, AnyOutput):
            if not open_calls.get(item.call_id):
                continue
            open_calls[item.call_id].popleft()
        kept.append(item)
    return kept, {identity for calls in open_calls.values() for identity in calls}


def pair_calls(items: Sequence[AnyItem]) -> dict[int, int]:
    """Map the index of each answered call to the index of its output, by the same rule."""
    pairs: dict[int, int] = {}
    open_calls: dict[str, deque[int]] = {}
    for index, item in enumerate(items):
        if isinstance(item, AnyCall):
            open_calls.setdefault(item.call_id, deque()).append(index)
        elif isinstance(item, AnyOutput) and open_calls.get(item.call_id):
            pairs[open_calls[item.call_id].popleft()] = index
    return pairs


def _is_response_item(item: AnyItem) -> bool:
    """True for items that may stand between the calls of one response and its last output."""
    match item:
        case Reasoning() | FunctionCall() | CustomToolCall() | ProviderItem():
            return True
        case Compaction():
            return False
        case FunctionCallOutput() | CustomToolCallOutput():
            return True
        case Message(role=role, author=author):
            return role == "assistant" and author is None


def _missing_output(
    call: AnyCall, interrupted: Collection[str], ended: Mapping[str, EndedCall]
) -> AnyOutput:
    if (end := ended.get(call.call_id)) is not None:
        code = "" if end.exit_code is None else f" with exit code {end.exit_code}"
        text = ENDED.format(status=end.status, code=code, output=end.output)
        return synthetic_output(call, text, success=end.status == "completed")
    return synthetic_output(call, INTERRUPTED if call.call_id in interrupted else ABORTED)


def without_latest_images(items: Sequence[AnyItem]) -> list[AnyItem] | None:
    """Replace the images of the latest output that has any by a note; None if no output has one."""
    for index in reversed(range(len(items))):
        item = items[index]
        if not isinstance(item, AnyOutput) or isinstance(item.output, str):
            continue
        if not any(isinstance(part, InputImage) for part in item.output):
            continue
        parts = tuple(
            InputText(text=IMAGE_REMOVED) if isinstance(part, InputImage) else part
            for part in item.output
        )
        return [*items[:index], msgspec.structs.replace(item, output=parts), *items[index + 1 :]]
    return None
