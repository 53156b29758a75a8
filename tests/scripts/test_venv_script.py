"""`scripts/venv` installs what is wanted once, and nothing when all of it is there already."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
TABLES = """
[dependency-groups]
test = ["a-test-tool"]
check = ["a-checker"]
dev = [{ include-group = "test" }, { include-group = "check" }]
"""
UV = """#!/bin/sh
echo "$@" >>"$ASKED"
case "$*" in *FAILS*) exit 1 ;; esac
"""


@pytest.fixture
def prepare(tmp_path):
    """Run it in a checkout of these tables; the packages that an installer was then asked for."""
    for folder in ("scripts", "tools", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(SCRIPTS / "venv", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text(TABLES)
    (tmp_path / "constraints.txt").touch()
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / "tools/uv").write_text(UV)
    (tmp_path / "tools/uv").chmod(0o755)
    for name in ("pyproject.toml", "constraints.txt"):
        os.utime(tmp_path / name, (1, 1))
    asked = tmp_path / "asked"

    def run(*words, code=0):
        asked.unlink(missing_ok=True)
        done = subprocess.run(
            [tmp_path / "scripts/venv", *words], capture_output=True, text=True, check=False,
            env={"PATH": f"{tmp_path}/tools:/usr/bin:/bin", "ASKED": str(asked)},
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return asked.read_text().split(" -e ")[1].split() if asked.exists() else None

    return run


def test_what_is_there_as_a_part_of_more_is_not_installed_again(prepare):
    assert prepare("local", "@dev") == [".[local]", "a-test-tool", "a-checker"]
    for less in (("local", "@dev"), ("@dev",), ("local", "@test"), ("local",), ()):
        assert prepare(*less) is None


def test_what_is_not_there_is_installed(prepare):
    assert prepare("@test") == [".", "a-test-tool"]
    assert prepare("@check") == [".", "a-checker"]
    assert prepare("local", "@test") == [".[local]", "a-test-tool"]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_where_the_wanted_versions_have_changed_all_is_installed_again(prepare, tmp_path, name):
    prepare("local", "@dev")
    later = (tmp_path / "asked").stat().st_mtime + 60
    os.utime(tmp_path / name, (later, later))
    assert prepare("local") == [".[local]"]


def test_an_environment_of_an_earlier_version_of_the_script_is_made_whole(prepare, tmp_path):
    (tmp_path / ".venv/.installed-local-").touch()
    assert prepare("local") == [".[local]"]


def test_what_failed_does_not_count_as_installed(prepare):
    prepare("FAILS", code=1)
    assert prepare("FAILS", code=1) == [".[FAILS]"]
