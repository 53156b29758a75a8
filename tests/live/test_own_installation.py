"""The wheel of this project starts, and refuses to where a stranger's package hides it."""

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
BUILD = "import build_backend, sys; print(build_backend.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder of packages with what the wheel holds."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    names = ("mailbox", "roles", "worker", "supervisor", "docs", "scripts")
    for name in names:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=source, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(source / "scripts")}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wheel = folder / done.stdout.split()[-1]
    assert wheel.name.startswith("swarm_supervisor-")
    packages = folder / "site-packages"
    with ZipFile(wheel) as archive:
        archive.extractall(packages)
    return packages


def swarm(*folders, words=("--version",), program="from swarm_command import main; main()"):
    """Start the command as its script does. Only these folders and the dependencies are found."""
    path = os.pathsep.join(map(str, (*folders, *site.getsitepackages())))
    return subprocess.run(
        [sys.executable, "-S", "-c", program, *words], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": path}, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def stranger(folder, mark):
    (folder / "swarm").mkdir(parents=True, exist_ok=True)
    (folder / "swarm/__init__.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    return folder


def test_the_command_starts_and_the_line_for_an_extra_names_no_package_of_ours(installed):
    assert swarm(installed).stdout.startswith("swarm 0.")
    program = "from swarm.mailbox.base.own_distribution import line_for_extra as f; print(f('ray'))"
    assert "'ray>=" in swarm(installed, program=program).stdout


@pytest.mark.parametrize("order", ["before", "after", "module"])
def test_a_strangers_package_is_named_in_one_sentence_and_never_executed(
    installed, tmp_path, order
):
    mark = tmp_path / "executed"
    if order == "module":
        (tmp_path / "swarm.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
        done = swarm(installed, tmp_path)
    else:
        other = stranger(tmp_path / "other", mark)
        folders = (other, installed) if order == "before" else (installed, other)
        done = swarm(*folders)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"({tmp_path}" in done.stderr
    assert not mark.exists()


def test_a_strangers_package_in_the_very_same_folder_is_named_too(installed, tmp_path):
    copied = tmp_path / "site-packages"
    shutil.copytree(installed, copied)
    mark = tmp_path / "executed"
    stranger(copied, mark)
    done = swarm(copied)
    assert done.returncode == 1
    assert "hides this one" in done.stderr
    assert not mark.exists()
    module = "from swarm.supervisor.clients.cli.entry import main; main()"
    assert "hides this one" in swarm(copied, program=module).stderr
