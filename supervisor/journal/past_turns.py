"""Lists an agent's turns from its file, and finds the one that a person means. Streamed."""

from collections.abc import Iterable, Sequence

from swarm.mailbox.errors import UsageError
from swarm.mailbox.ids import short_id
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed, TurnStarted
from swarm.mailbox.protocol.records import Record


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
