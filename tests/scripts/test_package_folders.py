"""What is installed is what lies there: no list of folders is kept by hand."""

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]


def package_folders(root, package_dir):
    script = ROOT / "scripts" / "package_folders.py"
    spec = importlib.util.spec_from_file_location("package_folders", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.package_folders(root, package_dir)


FOUND = package_folders(ROOT, TABLE["package-dir"])


def test_every_folder_of_python_files_is_a_package(tmp_path):
    for path in ("top/one.py", "top/below/deep/two.py", "top/data/words.md", "beside/three.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    found = package_folders(tmp_path, {"swarm.top": "top"})
    assert found == {
        "swarm.top": tmp_path / "top",
        "swarm.top.below.deep": tmp_path / "top/below/deep",
    }


def test_the_list_of_the_build_is_found_and_not_kept():
    assert TABLE["packages"] == []
    # The console script is also installed outside of `swarm`, which a stranger's package may hide.
    assert {"swarm.mailbox", "swarm.supervisor.parts.leases", "swarm_command"} <= set(FOUND)
    assert len(set(FOUND.values())) == len(FOUND) - 1


def test_the_build_installs_each_of_them():
    code = (
        "import sys; sys.path.insert(0, 'scripts'); import build_backend\n"
        "from setuptools.dist import Distribution\n"
        "made = Distribution(); made.parse_config_files(); print(*made.packages)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == set(FOUND)


@pytest.mark.parametrize("package", FOUND)
def test_whatever_lies_beside_the_code_is_shipped_with_it(package):
    tables = TABLE["package-data"]
    patterns = (*tables["*"], *tables.get(package, ()))
    shipped = {path for pattern in patterns for path in FOUND[package].glob(pattern)}
    lying = {path for path in FOUND[package].iterdir() if path.is_file() and path.suffix != ".py"}
    assert sorted(lying - shipped) == []
