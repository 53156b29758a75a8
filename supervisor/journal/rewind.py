"""An agent's history with the places where its turns begin: to take the last of them back, or to
go on from one of them elsewhere. Pure folds over records.

Rule guarded: a cut lies between turns, so that no call loses its output; a turn that a crash cut in
two is one.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from swarm.mailbox.marks import is_person
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed, TurnStarted
from swarm.mailbox.protocol.items import AnyItem, Message
from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, Record


class Begin(NamedTuple):
    """Where a turn begins: the index of its first item. `turn_id` "" = it was compacted."""

    turn_id: str
    at: int


class Rewindable(msgspec.Struct):
    """A history and its turns, in order. `open_turn`: the one that has no end."""

    items: list[AnyItem] = []
    turns: list[Begin] = []
    open_turn: str = ""


class Rewound(NamedTuple):
    """What is left, and the ids of the turns that are not; those compacted have none."""

    items: tuple[AnyItem, ...]
    turns: int
    dropped: tuple[str, ...]


def fold_turns(records: Iterable[Record]) -> Rewindable:
    """Fold one agent's file."""
    found = Rewindable()
    for record in records:
        match record.body:
            case TurnStarted(turn_id=turn_id):
                if not found.open_turn:
                    found.turns.append(Begin(turn_id, len(found.items)))
                found.open_turn = found.open_turn or turn_id
            case TurnCompleted() | TurnFailed() | TurnAborted():
                found.open_turn = ""
            case ItemRecorded(item=item):
                found.items.append(item)
            case ContextRecorded() as body:
                _replace(found, body)
            case _:
                pass
    return found


def rewind(found: Rewindable, turns: int) -> Rewound:
    """Without the last so many turns; without all of them if there are no more.

    Source: Codex `thread_rollback`; differs in that a turn is what the journal calls one, so that
    words which steered it are part of it.
    """
    gone = found.turns[-turns:] if turns > 0 else []
    at = gone[0].at if gone else len(found.items)
    dropped = tuple(one.turn_id for one in gone if one.turn_id)
    return Rewound(tuple(found.items[:at]), len(gone), dropped)


def _replace(found: Rewindable, body: ContextRecorded) -> None:
    before, items = len(found.items), list(body.items)
    found.items = items
    if body.rolled_back:
        del found.turns[-body.rolled_back :]
        found.open_turn = ""
    elif len(items) != before:
        latest = found.turns[-1].turn_id if found.open_turn and found.turns else ""
        found.turns = _told_by(items)
        if latest and found.turns:
            found.turns[-1] = Begin(latest, found.turns[-1].at)


def _told_by(items: Sequence[AnyItem]) -> list[Begin]:
    """Of a compacted history: turns begin with a person's words or another agent's letter."""
    return [
        Begin("", at)
        for at, item in enumerate(items)
        if is_person(item) or (isinstance(item, Message) and item.author is not None)
    ]
