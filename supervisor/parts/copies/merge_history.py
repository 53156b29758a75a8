"""What a run's records say of merges: which changes are in, and what was cut off. No I/O."""

from collections.abc import Iterable

import msgspec

from swarm.mailbox.protocol.merge_records import ChangeDiscarded, MergeBegan, MergeEnded
from swarm.mailbox.protocol.records import Record

from ..undo.snapshots import FilesPast


class PastMerge(msgspec.Struct):
    """One merge. `number` counts the applied ones into the project, from 1; 0 for the others."""

    began: MergeBegan
    ts: float
    ended: MergeEnded | None = None
    number: int = 0


class MergePast(msgspec.Struct):
    """`merges` by id, oldest first; `discarded`: agent id → fingerprints of changes given up."""

    merges: dict[str, PastMerge] = {}
    discarded: dict[str, set[str]] = {}
    applied: int = 0  # merges into the project so far

    def take(self, record: Record) -> None:
        """The next of the run's own records."""
        match record.body:
            case MergeBegan(merge_id=name) as began:
                self.merges[name] = PastMerge(began=began, ts=record.ts)
            case MergeEnded(merge_id=name, applied=applied) as ended if name in self.merges:
                self.merges[name].ended = ended
                if applied and not self.merges[name].began.into:  # only these can be undone
                    self.applied += 1
                    self.merges[name].number = self.applied
            case ChangeDiscarded(agent_id=agent_id, fingerprint=fingerprint):
                self.discarded.setdefault(agent_id, set()).add(fingerprint)
            case _:
                pass

    @property
    def cut_off(self) -> tuple[PastMerge, ...]:
        """Merges that began and did not end: they are to be carried out."""
        return tuple(one for one in self.merges.values() if one.ended is None)

    def find(self, wanted: str) -> PastMerge | None:
        """The applied merge of this number or id."""
        for one in self.merges.values():
            if one.number and wanted in (str(one.number), one.began.merge_id):
                return one
        return None

    def is_settled(self, agent_id: str, fingerprint: str, past: FilesPast) -> bool:
        """True if there is nothing to merge: no change, or merged and not undone, or given up."""
        if not fingerprint or fingerprint in self.discarded.get(agent_id, ()):
            return True
        for one in self.merges.values():
            if one.ended is None or not one.ended.applied:
                continue
            mine = [change for change in one.began.changes if change.agent_id == agent_id]
            is_it = any(change.fingerprint == fingerprint for change in mine)
            if is_it and not is_undone(one.began.merge_id, past):
                return True
        return False


def is_undone(merge_id: str, past: FilesPast) -> bool:
    """True if a merge changed files and all of that was undone."""
    found = [one for one in past.snapshots.values() if one.taken.turn_id == merge_id]
    changes = [one for one in found if not one.is_copy]
    return bool(changes) and all(one.undone for one in changes)


def fold_merges(records: Iterable[Record]) -> MergePast:
    past = MergePast()
    for record in records:
        past.take(record)
    return past
