"""Which recorded changes a person may have made: those of commands that ran for long. No I/O.

Files that change while a command runs are recorded as the command's. A person who edits one of them
meanwhile cannot be told from it, so an undo does not take such files back without a yes. Edits by
the agents' own tools take no time, and name their files.
"""

from collections.abc import Iterable

from swarm.mailbox.protocol.events import CallBegan, CallEnded, CommandCall, StdinCall
from swarm.mailbox.protocol.records import FilesChanged, Record

from .net_changes import RecordedChange

LONG_CALL_S = 5.0  # a person hardly saves a file during a shorter call


def find_long_changes(records: Iterable[Record]) -> frozenset[str]:
    """Ids of the changes during commands that ran for 5 s or more, or whose end is not known."""
    calls: set[str] = set()  # commands that may have run for long
    changed: dict[str, tuple[str, ...]] = {}
    for record in records:
        match record.body:
            case CallBegan(call_id=call_id, detail=CommandCall() | StdinCall()):
                calls.add(call_id)
            case CallEnded() as ended:
                is_short = ended.duration_s < LONG_CALL_S and ended.status != "interrupted"
                if is_short and ended.session_id is None:
                    calls.discard(ended.call_id)
            case FilesChanged() as body:
                changed[body.change_id] = body.call_ids
            case _:
                pass
    return frozenset(name for name, made_by in changed.items() if calls.intersection(made_by))


def changed_paths(changes: Iterable[RecordedChange]) -> tuple[str, ...]:
    """The paths that these changes name, sorted."""
    return tuple(sorted({entry.path for one in changes for entry in (*one.before, *one.after)}))
