"""Whose change it was, several changes as one, and which of them an undo may take back."""

import pytest

from swarm.supervisor.parts.undo.attribution import CallWindow, attribute_changes
from swarm.supervisor.parts.undo.content_store import UNKNOWN, ContentStore, FileEntry, read_entry
from swarm.supervisor.parts.undo.file_restore import (
    describe_failures,
    plan_changes,
    restore_files,
)
from swarm.supervisor.parts.undo.net_changes import RecordedChange, compose_changes, others_of
from swarm.supervisor.parts.undo.unified_diff import count_diff, diff_lines
from swarm.supervisor.parts.undo.watched_tree import PathChange

S = 1_000_000_000  # a second
ABSENT, ONE, TWO, THREE = "absent", "1" * 64, "2" * 64, "3" * 64


def put_back(plan, store):
    done, failed = restore_files(plan, store)
    return done, describe_failures(failed)


def entry(path: str, what: str) -> FileEntry:
    if what == ABSENT:
        return FileEntry(path=path, kind="absent")
    return FileEntry(path=path, kind="file", mode=0o644, sha256=what)


def change(path: str, at_s: float | None, before=ONE, after=TWO) -> PathChange:
    at = None if at_s is None else int(at_s * S)
    return PathChange(entry(path, before), entry(path, after), at)


def window(agent: str, began_s: float, ended_s: float | None, turn="t") -> CallWindow:
    ended = None if ended_s is None else int(ended_s * S)
    return CallWindow(agent, turn, f"call-{agent}-{began_s}", int(began_s * S), ended)


def shares(windows, *changes):
    found = attribute_changes(windows, changes, since_ns=0, now_ns=100 * S)
    return {
        (one.agent, one.turn_id, one.shared_with): [each.after.path for each in one.changes]
        for one in found
    }


A, B = window("/root/a", 10, 20), window("/root/b", 15, 30)


@pytest.mark.parametrize(
    ("at_s", "agents"),
    [
        (5, []),  # before anybody: a person's
        (12, ["/root/a"]),
        (15, ["/root/a", "/root/b"]),
        (20, ["/root/a", "/root/b"]),
        (25, ["/root/b"]),
        (50, []),
        (None, ["/root/a", "/root/b"]),  # gone: at any time since the last look
    ],
)
def test_a_change_belongs_to_those_who_worked_when_it_happened(at_s, agents):
    found = shares([A, B], change("f", at_s))
    assert sorted(agent for agent, _, _ in found) == agents
    others = {agent: shared for agent, _, shared in found}
    assert all(set(others[agent]) == set(agents) - {agent} for agent in agents)


def test_a_clock_that_is_not_ours_gives_the_change_to_all_who_worked():
    found = attribute_changes([A, B], [change("f", 2)], since_ns=9 * S, now_ns=100 * S)
    assert [one.agent for one in found] == ["/root/a", "/root/b"]


def test_two_calls_of_one_turn_share_nothing_with_others():
    found = attribute_changes(
        [A, window("/root/a", 12, 18)], [change("f", 15)], since_ns=0, now_ns=100 * S
    )
    assert [(one.agent, one.shared_with, len(one.call_ids)) for one in found] == [
        ("/root/a", (), 2)
    ]


def test_a_command_that_goes_on_as_a_session_keeps_its_changes():
    assert shares([window("/root/a", 10, None)], change("f", 90)) == {("/root/a", "t", ()): ["f"]}


def step(agent: str, *pairs: tuple[str, str, str], shared=()) -> RecordedChange:
    return RecordedChange(
        agent=agent,
        before=[entry(path, before) for path, before, _ in pairs],
        after=[entry(path, after) for path, _, after in pairs],
        shared_with=shared,
    )


def composed(*steps: RecordedChange):
    return {edit.path: edit for edit in compose_changes(steps)}


def test_changes_in_a_row_are_one_from_first_to_last():
    edits = composed(step("a", ("f", ONE, TWO)), step("a", ("f", TWO, THREE), ("g", ABSENT, ONE)))
    assert (edits["f"].before.sha256, edits["f"].after.sha256) == (ONE, THREE)
    assert not edits["f"].is_broken
    assert edits["g"].before.kind == "absent"


def test_what_came_to_nothing_is_left_out():
    assert composed(step("a", ("f", ONE, TWO)), step("a", ("f", TWO, ONE))) == {}
    assert composed(step("a", ("f", ABSENT, ONE)), step("a", ("f", ONE, ABSENT))) == {}


def test_anothers_change_between_two_of_ours_is_seen():
    edits = composed(step("a", ("f", ONE, TWO)), step("a", ("f", THREE, "4" * 64)))
    assert edits["f"].is_broken


def test_one_change_seen_twice_is_one():
    # Made before a loss; nobody looked.
    copy = RecordedChange(agent="a", before=[entry("f", ONE)], after=())
    edits = composed(copy, step("a", ("f", ONE, ABSENT)))
    assert (edits["f"].before.sha256, edits["f"].is_broken) == (ONE, False)
    both = composed(
        step("a", ("f", ONE, TWO), shared=("b",)), step("b", ("f", ONE, TWO), shared=("a",))
    )
    assert not both["f"].is_broken
    assert others_of(both["f"], {"a", "b"}) == []
    assert others_of(both["f"], {"a"}) == ["b"]


# --- plans and diffs, on a real disk ---------------------------------------------------------


class Disk:
    def __init__(self, folder) -> None:
        self.store, self.top = ContentStore(folder / "kept"), folder

    def put(self, name: str, data: bytes | None, mode: int = 0o644) -> FileEntry:
        """Make it so, and keep it; None removes it."""
        path = self.top / name
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(data)
            path.chmod(mode)
        (entry,) = self.store.entries_of([str(path)])
        return entry

    def plan(self, *steps: RecordedChange, agents=("a",), force=False):
        return plan_changes(compose_changes(steps), agents=agents, force=force)

    def names(self, entries) -> list[str]:
        return [str(getattr(one, "path", one)).rpartition("/")[2] for one in entries]


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path)


def test_shared_changed_and_copyless_files_are_left_and_the_rest_is_put_back(disk):
    names = ("mine", "shared", "since", "lost", "mode")
    before = [disk.put(name, b"old") for name in names]
    before[3] = FileEntry(path=before[3].path, kind="file", sha256=UNKNOWN)
    after = [disk.put(name, b"new") for name in names[:4]] + [disk.put("mode", b"old", 0o755)]
    disk.put("since", b"a person's")
    steps = [RecordedChange(agent="a", before=[b], after=[c],
    shared_with=("b",) if n == "shared" else ())
             for n, b, c in zip(names, before, after, strict=True)]  # fmt: skip
    plan = disk.plan(*steps)
    assert disk.names(plan.restore) == ["mine", "mode"]
    assert [disk.names(one) for one in (plan.left, plan.shared, plan.lost)] == [
        ["since"], ["shared"], ["lost"],
    ]  # fmt: skip
    assert disk.names(disk.plan(*steps, agents=("a", "b")).restore) == ["mine", "mode", "shared"]
    assert disk.names(disk.plan(*steps, force=True).restore) == ["mine", "mode", "shared", "since"]
    put_back(plan, disk.store)
    assert read_entry(str(disk.top / "mode")).mode == 0o644
    assert disk.plan(*steps).restore == ()


def test_a_new_folder_goes_only_when_nothing_of_others_is_in_it(disk):
    (disk.top / "new" / "deep").mkdir(parents=True)
    paths = [str(disk.top / name) for name in ("new", "new/deep", "new/deep/f")]
    (disk.top / "new" / "deep" / "f").write_text("x")
    after = disk.store.entries_of(paths)
    before = [FileEntry(path=path, kind="absent") for path in paths]
    (disk.top / "new" / "theirs").write_text("y")
    plan = disk.plan(RecordedChange(agent="a", before=before, after=after))
    done, failed = put_back(plan, disk.store)
    assert done == 1
    assert [line.rpartition("/")[2] for line in failed] == ["new: it holds files of somebody else"]
    assert sorted(one.name for one in (disk.top / "new").iterdir()) == ["theirs"]


def diffed(disk, before: FileEntry, after: FileEntry) -> list[str]:
    (edit,) = compose_changes([RecordedChange(agent="a", before=[before], after=[after])])
    return list(diff_lines(edit, disk.store, str(disk.top)))


def test_a_diff_is_in_gits_form(disk):
    old, new = disk.put("f", b"a\nb\n"), disk.put("f", b"a\nc", 0o755)
    assert diffed(disk, old, new) == [
        "diff --git a/f b/f", "old mode 100644", "new mode 100755", "--- a/f", "+++ b/f",
        "@@ -1,2 +1,2 @@", " a", "-b", "+c", "\\ No newline at end of file",
    ]  # fmt: skip
    gone = disk.put("f", None)
    assert diffed(disk, old, gone)[:5] == [
        "diff --git a/f b/f", "deleted file mode 100644", "--- a/f", "+++ /dev/null",
        "@@ -1,2 +0,0 @@",
    ]  # fmt: skip


@pytest.mark.parametrize("data", [b"\0\1", b"\xff\xfe\n", b"x\n" * 20_001])
def test_what_is_no_text_or_too_long_is_named_and_not_shown(disk, data):
    old, new = disk.put("f", b"a\n"), disk.put("f", data)
    assert diffed(disk, old, new)[-1].startswith("Binary files a/f and b/f differ")
    (edit,) = compose_changes([RecordedChange(agent="a", before=[old], after=[new])])
    assert count_diff(edit, disk.store, str(disk.top)).words.startswith("Bin 2 -> ")


def test_a_name_that_would_steer_a_terminal_is_escaped(disk):
    path = str(disk.top / "a\x1b[2Jb\n")
    before, after = FileEntry(path=path, kind="absent"), disk.put("a\x1b[2Jb\n", b"x\n")
    assert diffed(disk, before, after)[0] == "diff --git a/a\\x1b[2Jb\\n b/a\\x1b[2Jb\\n"
