"""What a turn changed as one diff: bounded, without secrets, honest about what it leaves out."""

import pytest

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.records import FilesChanged, SnapshotTaken, TurnDiff
from swarm.supervisor.parts.undo.changed_files import MAX_LISTED, list_changed_files
from swarm.supervisor.parts.undo.content_store import UNKNOWN, ContentStore, FileEntry
from swarm.supervisor.parts.undo.net_changes import RecordedChange, compose_changes
from swarm.supervisor.parts.undo.snapshots import FileSnapshot
from swarm.supervisor.parts.undo.turn_diffs import (
    MAX_INLINE_BYTES,
    EndedTurn,
    TurnDiffs,
    head_of,
    render_diff,
)
from swarm.supervisor.views.record_description import describe_turn_diff

TURN = EndedTurn("/root", "01a1", "t1", "/w")
SECRET = "correct-horse-battery"


class Recorder:
    """A store, and turns whose diffs are asked for."""

    def __init__(self, folder) -> None:
        self.store = ContentStore(folder / "kept")
        self.folder = folder
        self.diffs = TurnDiffs(self.store, folder / "diffs", Redactor([SECRET]).redact)

    def entry(self, name: str, text: str | None) -> FileEntry:
        path = name if name.startswith("/") else f"/w/{name}"
        if text is None:
            return FileEntry(path=path, kind="absent")
        (self.folder / "made").write_text(text)
        (made,) = self.store.entries_of([str(self.folder / "made")])
        return FileEntry(path=path, kind="file", mode=0o644, size=made.size, sha256=made.sha256)

    def step(
        self, *pairs: tuple[str, str | None, str | None], agent="/root", shared=()
    ) -> RecordedChange:
        before = [self.entry(name, old) for name, old, _ in pairs]
        after = [self.entry(name, new) for name, _, new in pairs]
        return RecordedChange(agent=agent, before=before, after=after, shared_with=shared)

    def change(self, step: RecordedChange, turn="t1", name="s1") -> FilesChanged:
        return FilesChanged(
            change_id=name,
            before=self.store.write_manifest(step.before),
            after=self.store.write_manifest(step.after),
            files=len(step.before),
            turn_id=turn,
            shared_with=step.shared_with,
        )

    def told(self, *steps: RecordedChange, uncovered=()) -> TurnDiff | None:
        self.diffs.begin("/root", "t1")
        for step in steps:
            self.diffs.add("/root", self.change(step))
        return self.diffs.make_diff(TURN, self.diffs.take(TURN), uncovered)


@pytest.fixture
def recorder(tmp_path):
    return Recorder(tmp_path)


def test_the_looks_of_one_turn_are_one_diff_in_gits_form(recorder):
    told = recorder.told(
        recorder.step(("a.py", "one\ntwo\n", "one\n2\n"), ("gone", "x\n", None)),
        recorder.step(("a.py", "one\n2\n", "one\nzwei\n"), ("new", None, "++ n\n")),
    )
    assert told == TurnDiff(
        turn_id="t1",
        diff=(
            "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"
            "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n"
            "@@ -1 +0,0 @@\n-x\n"
            "diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n"
            "@@ -0,0 +1 @@\n+++ n\n"
        ),
        files=3,
        added=2,
        removed=2,
    )


def test_what_came_to_nothing_and_what_other_turns_did_is_not_told(recorder):
    there, back = recorder.step(("f", "a\n", "b\n")), recorder.step(("f", "b\n", "a\n"))
    assert recorder.told(there, back) is None
    recorder.diffs.begin("/root", "t1")
    recorder.diffs.add("/root", recorder.change(there, turn="another"))
    assert recorder.diffs.make_diff(TURN, recorder.diffs.take(TURN), ()) is None


def test_a_turn_in_folders_that_are_not_watched_is_told_even_if_nothing_was_seen(recorder):
    told = recorder.told(uncovered=[f"/w/big{n}" for n in range(30)])
    assert told is not None
    assert (told.files, told.uncovered_count, len(told.uncovered)) == (0, 30, 20)
    words = describe_turn_diff(told)
    assert "what commands did in 30 folders is not known and no undo covers it" in words
    assert "/w/big0, /w/big1, /w/big2" in words


def test_a_secret_is_in_no_diff_wherever_the_diff_is_cut_or_kept(recorder):
    long = "".join(f"line {n}\n" for n in range(10_000))
    told = recorder.told(
        recorder.step(
            ("a", None, f"key = {SECRET}\nghp_{'a' * 30}\n"), ("b", None, long + SECRET + "\n")
        )
    )
    whole = (recorder.folder / told.file).read_text()
    assert "[redacted]" in told.diff
    for text in (told.diff, whole):
        assert SECRET not in text
        assert "ghp_aaa" not in text
    assert whole.endswith("+[redacted]\n")


def test_a_long_diff_is_in_a_file_and_its_record_has_the_head_and_says_so(recorder):
    told = recorder.told(recorder.step(("a", None, "ä" * 50 + "\n"), ("b", None, "x\n" * 18_000)))
    whole = (recorder.folder / told.file).read_text()
    head, note = told.diff.rsplit("\n# cut here", 1)
    assert whole.startswith(head + "\n")
    assert f"of {len(whole.encode()):,} bytes" in note
    assert len(told.diff.encode()) <= MAX_INLINE_BYTES
    assert told.added == 1 + 18_000


def test_long_texts_are_compared_only_for_a_person_and_the_diff_says_why(recorder):
    told = recorder.told(recorder.step(("a", "x\n" * 5_000, "y\n"), ("b", "x\n" * 30_000, None)))
    assert told.diff.splitlines()[1::3] == [
        "Binary files a/a and b/a differ (more than 4,000 lines)",
        "Binary files a/b and /dev/null differ (more than 20,000 lines)",
    ]


def test_no_head_ends_in_the_middle_of_a_line_or_a_sign():
    text = "é" * 10 + "\n" + "ü" * 200 + "\n"
    for most in range(60, 300):
        head = head_of(text, most)
        assert head.startswith(("é" * 10 + "\n#", "#", text[:12]))


def test_files_that_do_not_fit_are_counted_and_the_diff_says_so(recorder):
    edits = compose_changes([recorder.step(*((f"f{n}", None, "x" * 100 + "\n") for n in range(9)))])
    shown = render_diff(edits, recorder.store, "/w", str, most_bytes=700)
    assert (shown.hidden, shown.added) == (6, 3)
    assert shown.text.endswith(
        "# 6 more changed files: the diff is cut here, at 700 bytes; `swarm diff` shows all\n"
    )
    assert shown.text.count("diff --git") == 3


def test_what_no_undo_brings_back_and_whose_it_may_be_is_said(recorder):
    step = recorder.step(("f", "a\n", "b\n"), ("g", "a\n", "b\n"), shared=("/root/b",))
    lost = RecordedChange(
        agent="/root",
        before=[*step.before[:1], FileEntry(path="/w/g", kind="file", sha256=UNKNOWN)],
        after=step.after,
        shared_with=step.shared_with,
    )
    told = recorder.told(lost)
    assert (told.no_copy, told.shared_with) == (1, ("/root/b",))
    assert describe_turn_diff(told) == (
        "2 files, +1 -1; some may be the work of /root/b; 1 without a copy, which no undo brings "
        "back"
    )


def kept(recorder, step, name="s1"):
    change = recorder.change(step, name=name)
    taken = SnapshotTaken(snapshot_id=name, manifest=change.before, files=1, size_bytes=0)
    return FileSnapshot(
        taken=taken,
        agent=step.agent,
        ts=0,
        after=change.after,
        shared_with=step.shared_with,
        is_copy=False,
    )


def test_changed_files_are_listed_by_their_whole_change_the_latest_last(recorder):
    chosen = [
        kept(recorder, recorder.step(("z", "a", "b"), ("made", None, "a"), ("same", "a", "b"))),
        kept(recorder, recorder.step(("made", "a", "b"), ("same", "b", "a"), ("gone", "a", None))),
        kept(recorder, recorder.step(("/else/o", "a", "b"), ("o", "a", "b"), shared=("/root/b",))),
    ]
    told = list_changed_files(chosen, recorder.store, "/w")
    assert told.files == ("M z", "D gone", "A made")
    assert told.perhaps == ("M /else/o", "M o")
    assert told.more == 0


def test_of_very_many_changed_files_the_oldest_are_only_counted(recorder):
    many = [kept(recorder, recorder.step((f"f{n:03}", "a", "b"))) for n in range(MAX_LISTED + 5)]
    told = list_changed_files(many, recorder.store, "/w")
    assert told.files[0] == "M f005"
    assert told.files[-1] == f"M f{MAX_LISTED + 4:03}"
    assert (len(told.files), told.more) == (MAX_LISTED, 5)
