"""Build the history that follows a compaction: context, input and mail, a summary, the state.

Input from persons and mail from agents are kept verbatim as far as they fit, the first task and the
latest input always. Apart from them only guidance messages and the compaction's result are kept, so
no call stays without its output. Pure.

Source: Codex's local compaction; differs in that the task, the plan, changed files and agents are
pinned, mail counts as input, and images stay.
"""

from collections.abc import Callable, Sequence

import msgspec

from swarm.mailbox.contents.context_markers import (
    GUIDANCE_START,
    SUMMARY_END,
    SUMMARY_START,
    is_person_message,
)
from swarm.mailbox.protocol.items import (
    AnyItem,
    Compaction,
    ContentPart,
    InputImage,
    InputText,
    Message,
    text_of,
)
from swarm.mailbox.protocol.values.base import Value

from ...base.token_meter import BYTES_PER_TOKEN
from ...base.truncate import truncate_middle
from .pinned_state import PinnedState, state_text

MAX_KEPT_TEXT_TOKENS = 20_000  # of input and mail, in addition to the pinned messages
NO_SUMMARY = "(no summary available)"
_CUT_TOKENS = 32  # added to a cut message's text: role and truncation marker
Measure = Callable[[AnyItem], int]  # tokens of an item


class CompactionBudget(Value):
    """Limits of what a compaction keeps, in estimated tokens."""

    texts: int = MAX_KEPT_TEXT_TOKENS
    summary: int = 16_000


def compaction_budget(limit_tokens: int | None) -> CompactionBudget:
    """At most a quarter of the limit for kept messages and a quarter for the summary."""
    if limit_tokens is None:
        return CompactionBudget()
    quarter = max(256, limit_tokens // 4)
    return CompactionBudget(texts=min(MAX_KEPT_TEXT_TOKENS, quarter), summary=min(16_000, quarter))


def build_compacted_history(
    items: Sequence[AnyItem],
    *,
    context: Sequence[Message],
    ending: Sequence[AnyItem],
    room: CompactionBudget,
    measure: Measure,
) -> tuple[AnyItem, ...]:
    """Return the history after a compaction.

    Args:
        items: The history before.
        context: The current context, which the model is told first.
        ending: Stands for the removed rest: `summary_message`, or a provider's items.
        room: Token limits of the kept messages.
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
    """Return the summary and the state as a user message; a summary over its limit is cut."""
    shown = truncate_middle(
        summary.strip() or NO_SUMMARY, budget_bytes=room.summary * BYTES_PER_TOKEN
    )
    parts = [f"{SUMMARY_START}\n{intro}\n\n{shown}\n{SUMMARY_END}"]
    if text := state_text(state):
        parts.append(text)
    return Message(role="user", content=tuple(InputText(text=part) for part in parts))


def provider_ending(output: Sequence[AnyItem], state: PinnedState) -> tuple[AnyItem, ...]:
    """Return the ending for a provider's compaction; () if it holds no Compaction item."""
    sealed = tuple(item for item in output if isinstance(item, Compaction))
    if not sealed or not (text := state_text(state)):
        return sealed
    return (*sealed, Message(role="user", content=(InputText(text=text),)))


def is_task_message(item: AnyItem) -> bool:
    """True for a message that gives an agent work: a person's input, or mail of another agent."""
    return is_person_message(item) or (isinstance(item, Message) and item.author is not None)


def pinned_messages(items: Sequence[AnyItem]) -> set[int]:
    """Return the indexes of the messages that always stay: the first task and a person's latest."""
    tasks = [index for index, item in enumerate(items) if is_task_message(item)]
    said = [index for index in tasks if is_person_message(items[index])]
    return {*tasks[:1], *said[-1:]}


def _kept_messages(
    items: Sequence[AnyItem], room: CompactionBudget, measure: Measure
) -> tuple[AnyItem, ...]:
    """Return the pinned messages and the newest others that fit, the last one cut to fit."""
    pinned = pinned_messages(items)
    kept = {index: items[index] for index in pinned}
    left = room.texts
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
    """Return the message with its joined text cut to the budget and without its images."""
    text = truncate_middle(text_of(message.content), budget_bytes=budget_tokens * BYTES_PER_TOKEN)
    return msgspec.structs.replace(message, content=(InputText(text=text),))


def _folder_guidance(items: Sequence[AnyItem], context: Sequence[Message]) -> tuple[AnyItem, ...]:
    """Return AGENTS.md messages of subfolders that were added later; per folder the latest."""
    known = {_guidance_head(part) for message in context for part in message.content}
    found: dict[str, AnyItem] = {}
    for item in items:
        if not isinstance(item, Message) or item.role != "user" or len(item.content) != 1:
            continue
        head = _guidance_head(item.content[0])
        if head and head not in known:
            found.pop(head, None)
            found[head] = item
    return tuple(found.values())


def _guidance_head(part: ContentPart) -> str:
    """Return `# AGENTS.md instructions for FOLDER`; "" for any other part."""
    if isinstance(part, InputImage) or not part.text.startswith(GUIDANCE_START):
        return ""
    return part.text.partition("\n")[0]
