"""What a check consists of is found by its words and programs, and each change of it is told."""

import os

import pytest

from swarm.supervisor.parts.goals.check_words import named_paths, patterns_for
from swarm.supervisor.parts.goals.project_files import changed_files, look_at_project


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("./check.sh", ["./check.sh"]),
        ("cd sub && pytest -q tests/test_a.py::test_b", ["cd", "sub", "pytest", "tests/test_a.py"]),
        ("make -f build/Makefile", ["make", "build/Makefile"]),
        ("pytest --config=setup.cfg", ["pytest", "setup.cfg"]),
        ("sh -c 'unclosed", ["sh", "'unclosed"]),
        ("a|b;c>d", ["a", "b", "c", "d"]),
    ],
)
def test_words_of_a_command_that_may_be_files(command, words):
    found = named_paths([command])
    assert [word for word in words if word not in found] == []
    assert not any(word.startswith("-") for word in found)


def test_patterns_belong_to_the_programs_that_a_command_names():
    assert "conftest.py" in patterns_for(["cd x && /usr/bin/python3.11 -m pytest"])
    assert "Makefile" in patterns_for(["make"])
    assert patterns_for(["./own"]) == ()


def checks(folder, *commands, **more):
    return look_at_project(str(folder), commands, **more).checks


def test_files_that_commands_name_and_their_programs_use_are_part_of_the_check(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("tests/data.txt", "conftest.py", "code.py", ".venv/bin/pytest", "other.txt"):
        (tmp_path / name).write_text(name)
    found = checks(tmp_path, "pytest -q tests", search=f"/bin:{tmp_path}/.venv/bin")
    assert set(found) == {"tests/data.txt", "conftest.py", ".venv/bin/pytest"}


def test_a_change_a_new_file_a_lost_one_and_a_link_are_told(tmp_path):
    for name in ("test_a.py", "test_b.py", "test_c.py"):
        (tmp_path / name).write_text("assert True")
    before = checks(tmp_path, "pytest", "./run.sh")
    (tmp_path / "test_a.py").write_text("assert Tru3")
    (tmp_path / "test_b.py").unlink()
    (tmp_path / "test_c.py").unlink()
    (tmp_path / "test_c.py").symlink_to("/etc/hosts")
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "run.sh").write_text("exit 0")
    after = checks(tmp_path, "pytest", "./run.sh")
    assert changed_files(before, after) == (
        "conftest.py", "run.sh", "test_a.py", "test_b.py", "test_c.py",
    )  # fmt: skip


def test_pipes_and_links_that_lead_nowhere_are_looked_at_and_never_opened(tmp_path):
    os.mkfifo(tmp_path / "test_pipe.py")
    (tmp_path / "test_link.py").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to(".")
    assert set(checks(tmp_path, "pytest")) == {"test_pipe.py", "test_link.py"}


def test_the_digest_of_all_files_leaves_out_caches_and_sees_every_other_change(tmp_path):
    (tmp_path / "a.py").write_text("1")
    first = look_at_project(str(tmp_path), ("make",)).tree
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").write_text("x")
    assert look_at_project(str(tmp_path), ("make",)).tree == first
    (tmp_path / "b.py").write_text("2")
    assert look_at_project(str(tmp_path), ("make",)).tree != first
