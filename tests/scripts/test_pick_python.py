"""Which Python `.venv` is made with: scripts/pick-python, among some that say how fast they are."""

import subprocess
from pathlib import Path

import pytest

PICK = Path(__file__).parents[2] / "scripts" / "pick-python"
FAKE = """#!/bin/bash
case "$*" in
  *version_info*) [ "{version}" = old ] && exit 1; echo "{version} $0" ;;
  *perf_counter*) echo {pace} ;;
esac
"""


@pytest.fixture
def pick(tmp_path):
    """Ask it, with folders on PATH that hold such interpreters: name → (version, microseconds)."""

    def ask(*folders, **environment):
        path = []
        for number, pythons in enumerate(folders):
            folder = tmp_path / str(number)
            folder.mkdir()
            for name, (version, pace) in pythons.items():
                (folder / name).write_text(FAKE.format(version=version, pace=pace))
                (folder / name).chmod(0o755)
            path.append(str(folder))
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in ("bash", "env", "head", "readlink", "sort"):
            (tools / name).symlink_to(Path("/usr/bin") / name)
        named = {name: value.format(tmp=tmp_path) for name, value in environment.items()}
        done = subprocess.run(
            [PICK], env={"PATH": ":".join([*path, str(tools)]), **named},
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        return done.stdout.strip().removeprefix(f"{tmp_path}/"), done.stderr, done.returncode

    return ask


@pytest.mark.parametrize(
    ("folders", "chosen"),
    [
        ([{"python3": ("3.11", 50_000)}, {"python3": ("3.11", 34_000)}], "1/python3"),
        ([{"python3": ("3.11", 50_000)}, {"python3": ("3.11", 47_000)}], "0/python3"),  # hardly
        ([{"python3": ("3.11", 34_000)}, {"python3": ("3.11", 50_000)}], "0/python3"),
        ([{"python3": ("3.12", 50_000)}, {"python3.11": ("3.11", 20_000)}], "1/python3.11"),
        ([{"python3.12": ("3.12", 50_000)}, {"python3": ("3.11", 20_000)}], "0/python3.12"),
        ([{"python3": ("old", 20_000)}, {"python3": ("3.11", 50_000)}], "1/python3"),
        ([{"python3": ("3.11", "")}, {"python": ("3.11", 50_000)}], "1/python"),
    ],
)  # fmt: skip
def test_the_first_that_will_do_unless_the_same_version_is_clearly_faster(pick, folders, chosen):
    assert pick(*folders) == (chosen, "", 0)


def test_what_a_person_names_is_taken(pick):
    folders = [{"python3": ("3.11", 20_000)}, {"mine": ("3.11", 50_000)}]
    assert pick(*folders, SWARM_PYTHON="{tmp}/1/mine") == ("1/mine", "", 0)


def test_a_named_one_that_will_not_do_is_refused(pick):
    folders = [{"python3": ("3.11", 20_000)}, {"mine": ("old", 50_000)}]
    found, words, code = pick(*folders, SWARM_PYTHON="{tmp}/1/mine")
    assert (found, code) == ("", 2)
    assert "SWARM_PYTHON=" in words


def test_without_any_it_says_what_is_needed(pick):
    found, words, code = pick({"python3": ("old", 20_000)})
    assert (found, code) == ("", 2)
    assert "Python 3.11 or newer" in words
