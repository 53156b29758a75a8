"""An agent's turns, from its file: their list, and its history with the places where they begin.

No I/O of its own. A cut for a rollback or a fork is always between turns, so that no call loses its
output; a turn that a crash cut in two is one turn.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.contents.context_markers import is_person_message
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed, TurnStarted
from swarm.mailbox.protocol.items import AnyItem, Message
from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, Record
from swarm.mailbox.protocol.values.base import Value


class PastTurn(Value):
    """`seq` is that of its first record, `end_seq` that of its end, 0 while it has none."""

    turn_id: str
    number: int  # from 1
    ts: float
    seq: int
    end_seq: int = 0


def list_turns(records: Iterable[Record]) -> list[PastTurn]:
    """The turns in order. A turn that continued in another process counts once."""
    turns: dict[str, PastTurn] = {}
    for record in records:
        match record.body:
            case TurnStarted(turn_id=turn_id) if turn_id not in turns:
                turns[turn_id] = PastTurn(
                    turn_id=turn_id, number=len(turns) + 1, ts=record.ts, seq=record.seq
                )
            case TurnCompleted() | TurnFailed() | TurnAborted() as end if end.turn_id in turns:
                old = turns[end.turn_id]
                turns[end.turn_id] = PastTurn(
                    turn_id=old.turn_id, number=old.number, ts=old.ts, seq=old.seq,
                    end_seq=record.seq,
                )  # fmt: skip
            case _:
                pass
    return list(turns.values())


def find_turn(turns: Sequence[PastTurn], wanted: str) -> PastTurn:
    """Find a turn by number (1 is the first, -1 the last), `last`, or its id's head or tail.

    Raises UsageError that lists the last turns.
    """
    if not turns:
        raise UsageError("this agent has had no turn")
    if wanted == "last":
        return turns[-1]
    if wanted.lstrip("-").isdigit() and len(wanted) < 7:
        number = int(wanted)
        if number and -len(turns) <= number <= len(turns):
            return turns[number - 1 if number > 0 else number]
        raise UsageError(f"there is no turn {wanted}; this agent has had {len(turns)}")
    fits = [one for one in turns if one.turn_id.startswith(wanted) or one.turn_id.endswith(wanted)]
    if len(fits) != 1:
        some = ", ".join(f"{one.number} ({short_id(one.turn_id)})" for one in turns[-8:])
        raise UsageError(f"{wanted!r} fits {len(fits)} turns; the last are: {some}")
    return fits[0]


class TurnStart(NamedTuple):
    """Where a turn begins: the index of its first item. `turn_id` "": it was compacted."""

    turn_id: str
    at: int


class HistoryTurns(msgspec.Struct):
    """A history and its turns, in order. `open_turn`: the one that has no end."""

    items: list[AnyItem] = []
    turns: list[TurnStart] = []
    open_turn: str = ""


class RolledBackHistory(NamedTuple):
    """The remaining items, how many turns were dropped, and their ids; compacted ones have none."""

    items: tuple[AnyItem, ...]
    turns: int
    dropped: tuple[str, ...]


def fold_turns(records: Iterable[Record]) -> HistoryTurns:
    """Fold one agent's file."""
    found = HistoryTurns()
    for record in records:
        match record.body:
            case TurnStarted(turn_id=turn_id):
                if not found.open_turn:
                    found.turns.append(TurnStart(turn_id, len(found.items)))
                found.open_turn = found.open_turn or turn_id
            case TurnCompleted() | TurnFailed() | TurnAborted():
                found.open_turn = ""
            case ItemRecorded(item=item):
                found.items.append(item)
            case ContextRecorded() as body:
                _replace_items(found, body)
            case _:
                pass
    return found


def drop_last_turns(found: HistoryTurns, turns: int) -> RolledBackHistory:
    """Drop the last `turns` turns; all of them if there are no more.

    Source: Codex `thread_rollback`; differs in that a turn is what the journal calls one, so that
    inputs which steered it are part of it.
    """
    gone = found.turns[-turns:] if turns > 0 else []
    at = gone[0].at if gone else len(found.items)
    dropped = tuple(one.turn_id for one in gone if one.turn_id)
    return RolledBackHistory(tuple(found.items[:at]), len(gone), dropped)


def _replace_items(found: HistoryTurns, body: ContextRecorded) -> None:
    before, items = len(found.items), list(body.items)
    found.items = items
    if body.rolled_back:
        del found.turns[-body.rolled_back :]
        found.open_turn = ""
    elif len(items) != before:
        latest = found.turns[-1].turn_id if found.open_turn and found.turns else ""
        found.turns = _turns_in(items)
        if latest and found.turns:
            found.turns[-1] = TurnStart(latest, found.turns[-1].at)


def _turns_in(items: Sequence[AnyItem]) -> list[TurnStart]:
    """The turns of a compacted history: each begins with a person's or another agent's message."""
    return [
        TurnStart("", at)
        for at, item in enumerate(items)
        if is_person_message(item) or (isinstance(item, Message) and item.author is not None)
    ]
