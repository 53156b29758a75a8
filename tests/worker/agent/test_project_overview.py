"""What a small model is shown of the project: names, and the files that the task names."""

import pytest

from support.nested_fields import with_fields
from swarm.mailbox.protocol.values.limits import Limits, PathRule, ProfilePolicy
from swarm.worker.agent.turn.project_overview import ProjectOverview, find_named_files
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC


@pytest.mark.parametrize(
    ("task", "found"),
    [
        ("Fix test_calc.py.", ["test_calc.py"]),
        ("Look at ./lib/more.py and main.py", ["lib/more.py", "main.py"]),
        ("Correct guide.md, please", ["docs/guide.md"]),
        ("The file __init__.py is wrong", []),  # two files have that name
        ("Use version 1.2 and e.g. nothing", []),
    ],
)
def test_a_file_is_named_by_its_path_or_by_a_name_that_no_other_file_has(task, found):
    names = ["test_calc.py", "main.py", "lib/more.py", "docs/guide.md", "a/__init__.py",
             "b/__init__.py"]  # fmt: skip
    assert find_named_files(task, names) == found


@pytest.fixture
def project(tmp_path):
    files = {
        "calc.py": "def add(a, b):\n    return a - b\n",
        "test_calc.py": "from calc import add\n",
        ".env": "SECRET=1\n",
        "node_modules/x.js": "1\n",
        "long.txt": "word " * 1_000,
        "picture.bin": "\0\0",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link.txt").symlink_to("/etc/hostname")
    return tmp_path


def overview_of(folder, **changes):
    spec = with_fields(FAKE_AGENT_SPEC, cwd=str(folder), **changes)
    return ProjectOverview(CurrentSpec(spec))


def test_names_are_shown_once_and_a_named_test_comes_with_the_code_that_it_tests(project):
    overview = overview_of(project)
    assert overview.describe("The test in test_calc.py fails") == (
        f"Files of the project in {project}:\ncalc.py\nlong.txt\npicture.bin\ntest_calc.py\n\n"
        "test_calc.py holds:\nfrom calc import add\n\n"
        "calc.py holds:\ndef add(a, b):\n    return a - b"
    )
    assert overview.describe("And calc.py?") == ""
    long = overview.describe("Now long.txt, link.txt and .env")
    assert long.startswith("long.txt holds:\nword word")
    assert long.endswith("\n(cut)")


def test_what_the_permission_profile_denies_is_neither_named_nor_shown(project):
    policy = ProfilePolicy(
        rules=(
            PathRule(path=str(project), access="write"),
            PathRule(path=str(project / "calc.py"), access="deny"),
        )
    )
    overview = overview_of(project, limits=Limits(sandbox=policy))
    assert "calc.py" not in overview.describe("Read calc.py").replace("test_calc.py", "")
