"""Verifying and writing patches on real files: nothing is guessed, lost, or written elsewhere."""

import os
import stat
from pathlib import Path

import pytest

from swarm.mailbox.protocol.events import FileChange
from swarm.worker.parts.patch.apply import apply_verified, read_file
from swarm.worker.parts.patch.file_replacement import MAX_FILE_BYTES
from swarm.worker.parts.patch.verify import PatchRejected, VerifiedPatch, digest_of, verify_patch


def wrap(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def verified(folder: Path, *lines: str, **options) -> VerifiedPatch:
    patch = verify_patch(wrap(*lines), folder, read_file, **options)
    assert isinstance(patch, VerifiedPatch), patch
    return patch


def rejection(folder: Path, *lines: str, **options) -> str:
    patch = verify_patch(wrap(*lines), folder, read_file, **options)
    assert isinstance(patch, PatchRejected)
    return patch.message.removeprefix("apply_patch verification failed: ")


def below(folder: Path):
    return lambda path: path.is_relative_to(folder)


def anywhere(_: Path) -> bool:
    return True


def test_each_kind_of_hunk_changes_the_files_and_is_summed_up_by_letter(tmp_path):
    (tmp_path / "old.txt").write_text("gone\n")
    (tmp_path / "a.py").write_text("one\ntwo\n")
    (tmp_path / "m.py").write_text("x\n")
    patch = verified(
        tmp_path,
        "*** Delete File: old.txt",
        "*** Update File: a.py",
        "@@",
        "-two",
        "+zwei",
        "*** Update File: m.py",
        "*** Move to: deep/er/n.py",
        "@@",
        "-x",
        "+y",
        "*** Add File: new/file.txt",
        "+hello",
    )
    result = apply_verified(patch, may_write=below(tmp_path))
    assert result.exit_code == 0
    assert result.stdout == (
        "Success. Updated the following files:\nA new/file.txt\nM a.py\nM deep/er/n.py\nD old.txt\n"
    )
    assert not (tmp_path / "old.txt").exists() and not (tmp_path / "m.py").exists()
    assert (tmp_path / "a.py").read_text() == "one\nzwei\n"
    assert (tmp_path / "deep/er/n.py").read_text() == "y\n"
    assert (tmp_path / "new/file.txt").read_text() == "hello\n"
    assert result.digests[str(tmp_path / "m.py")] is None
    assert result.digests[str(tmp_path / "a.py")] == digest_of(b"one\nzwei\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.py", "deep", "new"]


def test_the_changes_are_known_before_anything_is_written(tmp_path):
    (tmp_path / "a").write_text("1\n2\n3\n4\n")
    (tmp_path / "d").write_text("bye\n")
    patch = verified(
        tmp_path,
        "*** Update File: a",
        "*** Move to: b",
        " 2",
        "-3",
        "*** Delete File: d",
        "*** Add File: n",
        "+x",
    )
    assert patch.changes == (
        FileChange(
            path=str(tmp_path / "a"),
            kind="update",
            unified_diff="@@ -2,3 +2,2 @@\n 2\n-3\n 4\n",
            move_path=str(tmp_path / "b"),
        ),
        FileChange(path=str(tmp_path / "d"), kind="delete", unified_diff="@@ -1 +0,0 @@\n-bye\n"),
        FileChange(path=str(tmp_path / "n"), kind="add", unified_diff="@@ -0,0 +1 @@\n+x\n"),
    )
    assert patch.paths == tuple(str(tmp_path / name) for name in "abdn")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "d"]


def test_a_later_hunk_sees_what_an_earlier_one_made(tmp_path):
    patch = verified(
        tmp_path,
        "*** Add File: a",
        "+1",
        "*** Update File: a",
        "*** Move to: b",
        "-1",
        "+2",
        "*** Update File: b",
        "-2",
        "+3",
    )
    assert apply_verified(patch, may_write=anywhere).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert (tmp_path / "b").read_text() == "3\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["*** Delete File: no"], "Failed to delete file {0}/no"),
        (["*** Delete File: dir"], "Failed to delete file {0}/dir"),
        (
            ["*** Update File: no", "-x"],
            "Failed to read file to update {0}/no: No such file or directory (os error 2)",
        ),
        (
            ["*** Update File: dir", "-x"],
            "Failed to read file to update {0}/dir: Is a directory (os error 21)",
        ),
        (
            ["*** Update File: bytes", "-x"],
            "Failed to read file to update {0}/bytes: stream did not contain valid UTF-8",
        ),
        (["*** Update File: a", "-x"], "Failed to find expected lines in {0}/a:\nx"),
        (["*** Add File: dir"], "Failed to write file {0}/dir: Is a directory (os error 21)"),
        (["*** Add File: a\0b"], "Failed to write file {0}/a\0b: not a valid path"),
        (
            ["bad"],
            "invalid hunk at line 4, 'bad' is not a valid hunk header. Valid hunk headers: "
            "'*** Add File: {{path}}', '*** Delete File: {{path}}', '*** Update File: {{path}}'",
        ),
    ],
)
def test_what_cannot_be_done_is_rejected_whole_with_the_file_named(tmp_path, lines, message):
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "dir").mkdir()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert rejection(tmp_path, "*** Add File: n", "+x", *lines) == message.format(tmp_path)
    assert not (tmp_path / "n").exists()


def test_a_fifo_and_a_huge_file_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert "is not a regular file" in rejection(tmp_path, "*** Update File: pipe", "-x")
    assert "is larger than" in rejection(tmp_path, "*** Update File: huge", "-x")


def test_a_file_that_is_not_as_the_agent_last_saw_it_is_a_conflict(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    lines = ("*** Update File: a", "-1", "+one")
    seen = {str(tmp_path / "a"): digest_of(b"1\n")}
    text = rejection(tmp_path, *lines, expected=seen)
    assert text.startswith(f"Conflict: {tmp_path}/a has changed since it was last seen")
    verified(tmp_path, *lines, expected={str(tmp_path / "a"): digest_of(b"1\n2\n")})


@pytest.mark.parametrize("meanwhile", ["changed", "removed", "appeared"])
def test_a_change_between_verifying_and_writing_is_a_conflict_and_survives(tmp_path, meanwhile):
    (tmp_path / "a").write_text("1\n")
    patch = verified(tmp_path, "*** Update File: a", "-1", "+2", "*** Add File: n", "+n")
    other = {"changed": ("a", "9\n"), "removed": ("a", None), "appeared": ("n", "9\n")}
    name, content = other[meanwhile]
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(content)
    result = apply_verified(patch, may_write=anywhere)
    assert result.exit_code == 1
    assert f"Conflict: {tmp_path}/{name} has changed" in result.stderr
    assert content == ((tmp_path / name).read_text() if content else None)


def test_after_a_failure_the_text_says_what_is_in_place_and_what_is_not(tmp_path):
    (tmp_path / "ro").mkdir()
    patch = verified(
        tmp_path, "*** Add File: one", "+1", "*** Add File: ro/two", "+2", "*** Add File: three"
    )
    allowed = below(tmp_path)
    result = apply_verified(
        patch, may_write=lambda path: allowed(path) and not path.is_relative_to(tmp_path / "ro")
    )
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr == (
        f"Failed to write file {tmp_path}/ro/two: not permitted by the sandbox policy "
        f"({tmp_path}/ro/two)\n"
        "Applied before this failure, and still in place:\nA one\nNot applied:\nA ro/two\nA three\n"
    )
    assert [change.path for change in result.changes] == [str(tmp_path / "one")]
    assert (tmp_path / "one").exists() and not (tmp_path / "three").exists()


def test_when_the_first_hunk_fails_the_text_says_that_nothing_changed(tmp_path):
    result = apply_verified(verified(tmp_path, "*** Add File: a"), may_write=lambda _: False)
    assert result.stderr.endswith("\nNo file was changed.\n") and result.changes == ()


def test_an_empty_patch_modifies_nothing_and_fails(tmp_path):
    result = apply_verified(verified(tmp_path), may_write=anywhere)
    assert (result.exit_code, result.stderr) == (1, "No files were modified.\n")


def test_the_mode_of_a_file_is_kept_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "run.sh").write_text("a\n")
    (tmp_path / "run.sh").chmod(0o751)
    (tmp_path / "link").symlink_to("run.sh")
    patch = verified(tmp_path, "*** Update File: link", "-a", "+b")
    assert apply_verified(patch, may_write=below(tmp_path)).exit_code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "run.sh").read_text() == "b\n"
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o751


@pytest.mark.parametrize("through", ["file", "folder", "dots"])
def test_no_link_and_no_dots_lead_out_of_what_may_be_written(tmp_path, through):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "f").write_text("a\n")
    (inside / "file").symlink_to(outside / "f")
    (inside / "folder").symlink_to(outside)
    path = {"file": "file", "folder": "folder/f", "dots": "../out/f"}[through]
    patch = verified(inside, f"*** Update File: {path}", "-a", "+b")
    result = apply_verified(patch, may_write=below(inside))
    assert result.exit_code == 1 and "not permitted by the sandbox policy" in result.stderr
    assert (outside / "f").read_text() == "a\n"


def test_a_folder_swapped_for_a_link_after_the_question_is_not_followed(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    patch = verified(inside, "*** Add File: sub/f", "+x")

    def swapping(path: Path) -> bool:
        (inside / "sub").rmdir()
        (inside / "sub").symlink_to(outside)
        return path.is_relative_to(inside)

    result = apply_verified(patch, may_write=swapping)
    assert result.exit_code == 1
    assert list(outside.iterdir()) == []


def test_deleting_a_link_removes_the_link_alone(tmp_path):
    (tmp_path / "f").write_text("a\n")
    (tmp_path / "link").symlink_to("f")
    patch = verified(tmp_path, "*** Delete File: link")
    assert apply_verified(patch, may_write=below(tmp_path)).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_move_asks_about_both_ends_before_it_writes_one(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "f").write_text("a\n")
    patch = verified(inside, "*** Update File: ../out/f", "*** Move to: g", "-a", "+b")
    result = apply_verified(patch, may_write=below(inside))
    assert result.exit_code == 1 and "Failed to remove original" in result.stderr
    assert (outside / "f").exists() and not (inside / "g").exists()


def test_moving_a_file_onto_itself_changes_it_in_place(tmp_path):
    (tmp_path / "f").write_text("a\n")
    patch = verified(tmp_path, "*** Update File: f", "*** Move to: ./f", "-a", "+b")
    assert apply_verified(patch, may_write=anywhere).exit_code == 0
    assert (tmp_path / "f").read_text() == "b\n"


def test_adding_over_a_file_shows_what_goes(tmp_path):
    (tmp_path / "f").write_text("old\n")
    patch = verified(tmp_path, "*** Add File: f", "+new")
    assert patch.changes[0].unified_diff == "@@ -1 +1 @@\n-old\n+new\n"
    assert apply_verified(patch, may_write=anywhere).exit_code == 0
    assert (tmp_path / "f").read_text() == "new\n"
