"""The shorter history that follows a compaction: context, the person's words, a summary, the state.

Rule guarded: what a person and other agents said is kept word for word as far as it fits, the task
always; nothing but whole messages is kept, so no call is left without its output. Pure.

Source: Codex's local compaction; differs in that the task, the plan, changed files and agents are
pinned, letters count as words, and images stay.
"""

from collections.abc import Callable, Sequence

import msgspec

from swarm.mailbox.context_markers import (
    GUIDANCE_START,
    SUMMARY_END,
    SUMMARY_START,
    is_person_message,
)
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.items import (
    AnyItem,
    Compaction,
    ContentPart,
    InputImage,
    InputText,
    Message,
    text_of,
)

from .pinned_state import PinnedState, state_text
from .token_meter import BYTES_PER_TOKEN
from .truncate import truncate_middle

MAX_KEPT_TEXT_TOKENS = 20_000  # of the person's and other agents' words, beside the pinned ones
NO_SUMMARY = "(no summary available)"
_CUT_TOKENS = 32  # of a cut message beside its text: what it is, and the mark
Measure = Callable[[AnyItem], int]  # tokens of an item


class CompactionBudget(Value):
    """Bounds of what a compaction leaves, in tokens as the estimate counts them."""

    words: int = MAX_KEPT_TEXT_TOKENS
    summary: int = 16_000


def compaction_budget(limit_tokens: int | None) -> CompactionBudget:
    """At most a quarter of the limit for kept words, and a quarter for the summary."""
    if limit_tokens is None:
        return CompactionBudget()
    quarter = max(256, limit_tokens // 4)
    return CompactionBudget(words=min(MAX_KEPT_TEXT_TOKENS, quarter), summary=min(16_000, quarter))


def build_compacted_history(
    items: Sequence[AnyItem],
    *,
    context: Sequence[Message],
    ending: Sequence[AnyItem],
    room: CompactionBudget,
    measure: Measure,
) -> tuple[AnyItem, ...]:
    """The history after a compaction.

    Args:
        items: The history before.
        context: What a model is told first, as of now.
        ending: What stands for the rest: `summary_message`, or a provider's items.
        room: How much of the words is kept.
        measure: Tokens of an item.
    """
    return (
        *context,
        *_folder_guidance(items, context),
        *_kept_messages(items, room, measure),
        *ending,
    )


def summary_message(
    intro: str, summary: str, state: PinnedState, room: CompactionBudget
) -> Message:
    """The summary and the state in the role of the user; a summary over its room is cut."""
    told = truncate_middle(
        summary.strip() or NO_SUMMARY, budget_bytes=room.summary * BYTES_PER_TOKEN
    )
    parts = [f"{SUMMARY_START}\n{intro}\n\n{told}\n{SUMMARY_END}"]
    if text := state_text(state):
        parts.append(text)
    return Message(role="user", content=tuple(InputText(text=part) for part in parts))


def provider_ending(output: Sequence[AnyItem], state: PinnedState) -> tuple[AnyItem, ...]:
    """What a provider's compaction stands with; () if it sealed nothing."""
    sealed = tuple(item for item in output if isinstance(item, Compaction))
    if not sealed or not (text := state_text(state)):
        return sealed
    return (*sealed, Message(role="user", content=(InputText(text=text),)))


def is_task_message(item: AnyItem) -> bool:
    """True for words that an agent works for: a person's, or another agent's letter."""
    return is_person_message(item) or (isinstance(item, Message) and item.author is not None)


def pinned_messages(items: Sequence[AnyItem]) -> set[int]:
    """The places of the words that stay whatever happens: the first task, and the latest one."""
    tasks = [index for index, item in enumerate(items) if is_task_message(item)]
    said = [index for index in tasks if is_person_message(items[index])]
    return {*tasks[:1], *said[-1:]}


def _kept_messages(
    items: Sequence[AnyItem], room: CompactionBudget, measure: Measure
) -> tuple[AnyItem, ...]:
    """The pinned words, and of the others the newest that fit; the last of those is cut to fit."""
    pinned = pinned_messages(items)
    kept = {index: items[index] for index in pinned}
    left = room.words
    for index in reversed(range(len(items))):
        item = items[index]
        if index in pinned or not is_task_message(item) or not isinstance(item, Message):
            continue
        size = measure(item)
        if size <= left:
            kept[index] = item
            left -= size
            continue
        if left >= 2 * _CUT_TOKENS and item.author is None:
            kept[index] = _cut_message(item, left - _CUT_TOKENS)
        break
    return tuple(kept[index] for index in sorted(kept))


def _cut_message(message: Message, budget_tokens: int) -> Message:
    """The message with its texts cut to the budget together; its images are left out."""
    text = truncate_middle(text_of(message.content), budget_bytes=budget_tokens * BYTES_PER_TOKEN)
    return msgspec.structs.replace(message, content=(InputText(text=text),))


def _folder_guidance(items: Sequence[AnyItem], context: Sequence[Message]) -> tuple[AnyItem, ...]:
    """AGENTS.md texts that joined later, for folders below; of two for one folder the later."""
    told = {_guidance_head(part) for message in context for part in message.content}
    found: dict[str, AnyItem] = {}
    for item in items:
        if not isinstance(item, Message) or item.role != "user" or len(item.content) != 1:
            continue
        head = _guidance_head(item.content[0])
        if head and head not in told:
            found.pop(head, None)
            found[head] = item
    return tuple(found.values())


def _guidance_head(part: ContentPart) -> str:
    """`# AGENTS.md instructions for FOLDER`; "" for any other part."""
    if isinstance(part, InputImage) or not part.text.startswith(GUIDANCE_START):
        return ""
    return part.text.partition("\n")[0]
