"""Which changes are settled, by the records of a run alone."""

from swarm.mailbox.protocol.merge_records import (
    ChangeDiscarded,
    MergeBegan,
    MergedChange,
    MergeEnded,
)
from swarm.mailbox.protocol.records import FilesChanged, Record, Undone
from swarm.supervisor.parts.copies.merge_history import fold_merges
from swarm.supervisor.parts.undo.snapshots import fold_files

BEGAN = MergeBegan(
    merge_id="m1", changes=(MergedChange(agent="/root/a", agent_id="a", fingerprint="f1"),)
)
APPLIED = MergeEnded(merge_id="m1", applied=True)
CHANGED = FilesChanged(
    change_id="s1", before="b", after="a", files=1, turn_id="m1", call_ids=("m1",)
)


def is_settled(fingerprint: str, *bodies) -> bool:
    records = [Record(seq=seq, ts=float(seq), body=body) for seq, body in enumerate(bodies, 1)]
    return fold_merges(records).is_settled("a", fingerprint, fold_files(records))


def test_no_change_is_settled_and_a_change_is_not():
    assert is_settled("")
    assert not is_settled("f1")


def test_a_merged_change_is_settled_and_further_work_is_not():
    assert is_settled("f1", BEGAN, CHANGED, APPLIED)
    assert not is_settled("f2", BEGAN, CHANGED, APPLIED)


def test_a_merge_that_was_cut_off_or_taken_back_settles_nothing():
    assert not is_settled("f1", BEGAN)
    assert not is_settled("f1", BEGAN, MergeEnded(merge_id="m1", applied=False))


def test_an_undone_merge_makes_the_change_unmerged_again_and_a_second_merge_settles_it():
    undone = Undone(snapshot_id="s1", restored=1)
    assert not is_settled("f1", BEGAN, CHANGED, APPLIED, undone)
    again = MergeBegan(merge_id="m2", changes=BEGAN.changes)
    assert is_settled(
        "f1", BEGAN, CHANGED, APPLIED, undone, again, MergeEnded(merge_id="m2", applied=True)
    )


def test_a_change_that_was_given_up_is_settled_as_it_was_then():
    given_up = ChangeDiscarded(agent_id="a", fingerprint="f1")
    assert is_settled("f1", given_up)
    assert not is_settled("f2", given_up)


def test_only_applied_merges_are_numbered():
    records = [
        Record(seq=1, ts=1.0, body=BEGAN),
        Record(seq=2, ts=2.0, body=MergeEnded(merge_id="m1", applied=False)),
        Record(seq=3, ts=3.0, body=MergeBegan(merge_id="m2", changes=())),
        Record(seq=4, ts=4.0, body=MergeEnded(merge_id="m2", applied=True)),
    ]
    past = fold_merges(records)
    assert past.find("1") is past.merges["m2"]
    assert past.find("2") is None
    assert past.find("m1") is None
