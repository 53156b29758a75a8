"""A program that lies where agents write is compared with its last start."""

import os
from pathlib import Path

import pytest

from swarm.roles.pinned_programs import (
    ComparedProgram,
    PinNotSaved,
    ProgramChanges,
    accept_program,
    check_program,
)


@pytest.fixture
def program(tmp_path: Path) -> ComparedProgram:
    tools = tmp_path / "project/tools"
    (tools / "lib").mkdir(parents=True)
    (tools / "server.py").write_text("import lib.a\n")
    (tools / "lib/a.py").write_text("A = 1\n")
    (tools / "link").symlink_to("server.py")
    words = ("/usr/bin/python3", str(tools / "server.py"))
    return ComparedProgram(words, str(tmp_path / "project"), (str(tools),))


def checked(tmp_path: Path, program: ComparedProgram) -> ProgramChanges | None:
    return check_program(tmp_path / "pins", program)


def tools_of(program: ComparedProgram) -> Path:
    return Path(program.parts[0])


def test_the_first_start_is_the_beginning_and_the_same_program_is_let_be(
    tmp_path: Path, program: ComparedProgram
) -> None:
    assert [checked(tmp_path, program) for _ in range(3)] == [None, None, None]


def test_every_kind_of_change_is_found_and_stays_found(
    tmp_path: Path, program: ComparedProgram
) -> None:
    assert checked(tmp_path, program) is None
    tools = tools_of(program)
    before = (tools / "lib/a.py").stat()
    (tools / "lib/a.py").write_text("A = 2\n")  # the same size
    os.utime(tools / "lib/a.py", ns=(before.st_atime_ns, before.st_mtime_ns))  # and time
    (tools / "lib/new.py").write_text("")
    (tools / "link").unlink()
    for _ in range(2):
        changes = checked(tmp_path, program)
        assert changes is not None
        assert changes[:3] == (
            (f"{tools}/lib/a.py",),
            (f"{tools}/lib/new.py",),
            (f"{tools}/link",),
        )


def test_a_link_that_leads_elsewhere_and_a_file_that_becomes_a_link_are_changes(
    tmp_path: Path, program: ComparedProgram
) -> None:
    assert checked(tmp_path, program) is None
    tools = tools_of(program)
    (tools / "link").unlink()
    (tools / "link").symlink_to("lib/a.py")
    (tools / "lib/a.py").rename(tools / "b.py")
    (tools / "lib/a.py").symlink_to("../b.py")
    changes = checked(tmp_path, program)
    assert changes is not None
    assert set(changes.changed) == {f"{tools}/link", f"{tools}/lib/a.py"}


def test_what_was_only_written_again_is_the_same(tmp_path: Path, program: ComparedProgram) -> None:
    assert checked(tmp_path, program) is None
    script = tools_of(program) / "server.py"
    content = script.read_bytes()
    script.unlink()
    script.write_bytes(content)
    script.chmod(0o700)
    assert checked(tmp_path, program) is None


def test_another_folder_and_another_command_line_are_other_programs(
    tmp_path: Path, program: ComparedProgram
) -> None:
    assert checked(tmp_path, program) is None
    (tools_of(program) / "server.py").write_text("evil\n")
    assert checked(tmp_path, program._replace(words=(*program.words, "--new"))) is None
    assert checked(tmp_path, program._replace(folder=str(tmp_path))) is None
    assert checked(tmp_path, program) is not None


def test_a_yes_covers_what_was_shown_and_nothing_that_came_after(
    tmp_path: Path, program: ComparedProgram
) -> None:
    assert checked(tmp_path, program) is None
    script = tools_of(program) / "server.py"
    script.write_text("the person's change\n")
    shown = checked(tmp_path, program)
    assert shown is not None
    assert shown.lines() == (f"changed: {script}",)
    script.write_text("an agent's, while the question is open\n")
    accept_program(tmp_path / "pins", program, shown)
    assert checked(tmp_path, program) is not None
    script.write_text("the person's change\n")
    assert checked(tmp_path, program) is None


def test_a_note_that_cannot_be_read_is_a_change_until_a_person_says_yes(
    tmp_path: Path, program: ComparedProgram
) -> None:
    assert checked(tmp_path, program) is None
    (note,) = (tmp_path / "pins").iterdir()
    note.write_text("[")
    changes = checked(tmp_path, program)
    assert changes is not None
    assert f"{note} cannot be read" in str(changes)
    accept_program(tmp_path / "pins", program, changes)
    assert checked(tmp_path, program) is None


def test_too_many_files_are_never_compared_by_half(
    tmp_path: Path, program: ComparedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.roles.pinned_programs.MOST_FILES", 2)
    changes = checked(tmp_path, program)
    assert changes is not None
    assert "more than 2 files" in str(changes)
    with pytest.raises(PinNotSaved, match="keep it in a folder of its own"):
        accept_program(tmp_path / "pins", program, changes)


def test_a_large_file_counts_by_what_nobody_can_set(
    tmp_path: Path, program: ComparedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.roles.pinned_programs._HASHED_FILE_BYTES", 4)
    assert checked(tmp_path, program) is None
    assert checked(tmp_path, program) is None
    script = tools_of(program) / "server.py"
    facts = script.stat()
    with script.open("r+b") as stream:
        stream.write(b"I")
    os.utime(script, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    changes = checked(tmp_path, program)
    assert changes is not None
    assert changes.changed == (str(script),)
