"""What of an agent's compactions can still be taken back is read from its file."""

import msgspec

from swarm.mailbox.protocol.changes import CompactionInfo
from swarm.mailbox.protocol.items import encode_item, text_message
from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, Record
from swarm.mailbox.protocol.sampling import chain_digest
from swarm.supervisor.journal.replay import find_compaction_undo

A, B, C, D = (text_message("user", name) for name in "abcd")


def item(one):
    return ItemRecorded(turn_id="t", item=one, item_id="i")


def shortened(name, *items):
    done = CompactionInfo(
        compaction_id=name, trigger="limit", means="model", before_tokens=9, after_tokens=1,
        before_items=2,
    )  # fmt: skip
    return ContextRecorded(turn_id="t", items=items, shortened=done)


def undone(name, *items):
    return ContextRecorded(turn_id="t", items=items, undoes=name)


def find(*bodies):
    found = find_compaction_undo(Record(seq=1, ts=1.0, body=body, agent="/root") for body in bodies)
    if found is None:
        return None
    before = tuple(msgspec.Raw(encode_item(one)) for one in (A, B))
    assert found.items == before
    return found.compaction_id, found.base_count, found.base_digest


def digest(*items):
    value = b""
    for one in items:
        value = chain_digest(value, encode_item(one))
    return value


def test_the_latest_compaction_can_be_taken_back_also_when_the_history_went_on():
    assert find(item(A), item(B), shortened("c1", C)) == ("c1", 1, digest(C))
    assert find(item(A), item(B), shortened("c1", C), item(D)) == ("c1", 1, digest(C))


def test_without_one_or_behind_another_replacement_there_is_nothing_to_take_back():
    assert find(item(A)) is None
    replaced = ContextRecorded(turn_id="t", items=(D,))
    assert find(item(A), item(B), shortened("c1", C), replaced) is None


def test_what_was_taken_back_is_not_taken_back_again():
    assert find(item(A), item(B), shortened("c1", C), undone("c1", A, B)) is None


def test_after_the_last_one_the_one_before_it_can_be_taken_back():
    bodies = (item(A), item(B), shortened("c1", C), item(D), shortened("c2", D))
    assert find(*bodies, undone("c2", C, D)) == ("c1", 1, digest(C))
