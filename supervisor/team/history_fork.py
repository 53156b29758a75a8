"""What a forked child gets of its parent's history: the latest turns, then a filter. No I/O.

Source: Codex's fork modes (first cut, then filter). Differs: an untagged answer that ended its turn
is kept (wires without phases have no others), and so is mail that gave a task.
"""

from collections.abc import Iterable

from swarm.mailbox.context_markers import is_person_message
from swarm.mailbox.protocol.events import TurnCompleted
from swarm.mailbox.protocol.items import AnyItem, Compaction, Message, text_of
from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, MailPosted, Record

FORK_RULE = "fork_turns must be `none`, `all`, or a positive integer string"


def parse_fork_turns(text: str) -> int | None:
    """How many turns: 0 = none, None = all. Raises ValueError with the rule."""
    wanted = text.strip().lower()
    if wanted in {"", "all"}:
        return None
    if wanted == "none":
        return 0
    if not (wanted.isascii() and wanted.isdigit()) or len(wanted) > 9 or int(wanted) < 1:
        raise ValueError(FORK_RULE)
    return int(wanted)


class _HistoryEntry:
    """An item of the parent's history, and whether it starts a turn."""

    def __init__(self, item: AnyItem, *, starts_turn: bool, is_task: bool = False) -> None:
        self.item, self.starts_turn, self.is_task = item, starts_turn, is_task
        self.ended_turn = False


def fork_history(records: Iterable[Record], *, turns: int | None) -> tuple[AnyItem, ...]:
    """The child's history.

    Args:
        records: The parent's own file, in order.
        turns: How many of its latest turns, ≥ 1; None = all.
    """
    entries = _read(records)
    starts = [index for index, one in enumerate(entries) if one.starts_turn]
    if turns is not None and len(starts) > turns:
        entries = entries[starts[-turns] :]
    return tuple(one.item for one in entries if _is_kept(one))


def _read(records: Iterable[Record]) -> list[_HistoryEntry]:
    entries: list[_HistoryEntry] = []
    tasks: set[str] = set()  # mail that starts a turn
    for record in records:
        match record.body:
            case ItemRecorded(item=item, item_id=item_id, source=source):
                is_task = source == "mail" and item_id in tasks
                entries.append(
                    _HistoryEntry(item, starts_turn=source == "user" or is_task, is_task=is_task)
                )
            case ContextRecorded(items=items):
                entries = [
                    _HistoryEntry(item, starts_turn=is_person_message(item)) for item in items
                ]
            case MailPosted(mail=mail) if mail.trigger_turn:
                tasks.add(mail.mail_id)
            case TurnCompleted(last_message=str() as last):
                _mark_answer(entries, last)
            case _:
                pass
    return entries


def _mark_answer(entries: list[_HistoryEntry], last_message: str) -> None:
    for one in reversed(entries):
        if one.starts_turn:
            return
        if isinstance(one.item, Message) and text_of(one.item.content) == last_message:
            one.ended_turn = True
            return


def _is_kept(one: _HistoryEntry) -> bool:
    item = one.item
    if not isinstance(item, Message):
        return isinstance(item, Compaction)  # a provider's summary of its start
    if item.role != "assistant":
        return True
    return item.phase == "final_answer" or one.is_task or (one.ended_turn and item.phase is None)
