"""What scripts/measure-code counts, on a small tree in which each thing stands once."""

import json
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "measure-code"
FILES = {
    "mailbox/interfaces.py": "class Letter: 'Pure.'\nclass _Own: ...\n",
    "roles/post.py": "class Letter: ...\nclass _Own: ...\n",
    "worker/one.py": """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from .two import Two
class One:
    def __init__(self):
        self.on_end = lambda: None
        self.name = "one"
""",
    "worker/two.py": """
from .one import One
class Two:
    on_end: "int" = 0
def later():
    from .deep import post
    post.join(1)
""",
    "worker/deep/__init__.py": "from ..two import Two\n",
    "worker/deep/post.py": "def join(one):\n    one.on_end = lambda: 3\n    one.name = 'new'\n",
    "mailbox/parts/turns/__init__.py": "",
    "mailbox/parts/turns/turn.py": "class Turn(Letter):\n    first: int\n    last: int = 0\n",
    "roles/turns.py": (
        "def take(one, two): Turn(a=one.a, b=one.b, c=one.c, d=one.d, e=two.e, f=one.g, g=two)\n"
        "from swarm.mailbox.parts.turns.turn import Turn\n"
    ),
    "worker/post.py": "def long():\n" + "    print()\n" * 40 + "\n" * 29,
    "tests/test_one.py": "import sys\nsys.path.insert(0, '')\n",
    "docs/architecture.md": """
## Journey of a call
`worker/one.py:One.run` → `worker/two.py:later` → `worker/one.py:other`
## Elsewhere
`worker/post.py:nothing`
""",
}


def measured(tree, *options):
    done = subprocess.run(
        [SCRIPT, "--tree", tree, *options], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_figure_counts_what_the_page_says(tree):
    code, told, _ = measured(tree, "--json", "--names")
    figures = json.loads(told)
    names = figures.pop("names")
    assert code == 0
    assert figures == {
        "lines_of_product_code": 98,
        "files": 10,
        "lines_of_the_median_file": 2,
        "files_under_60_lines": 9,
        "base_names_shared_in_one_package": 1,
        "base_names_shared_in_the_project": 1,
        "public_classes_defined_twice": 1,
        "import_circles": 1,
        "modules_in_import_circles": 2,
        "modules_in_circles_with_imports_inside_functions": 2,
        "folder_circles": 1,
        "folders_in_circles": 2,
        "fields_set_in_other_files": 2,
        "fields_copied_by_hand": 4,
        "callables_wired_after_construction": 1,
        "lambda_placeholders": 1,
        "imports_for_the_type_checker_alone": 1,
        "functions_over_40_lines": 1,
        "docstrings_that_say_pure_without_a_contract": 1,
        "test_files_that_edit_sys_path": 1,
        "fields_of_the_widest_struct": 2,
        "files_outside_of_a_part_that_name_it": 1,
        "journeys_described": 1,
        "files: Journey of a call": 2,
        "files with helpers: Journey of a call": 3,
    }
    assert names["import_circles"] == ["swarm.worker.one swarm.worker.two"]
    assert names["folder_circles"] == ["worker worker/deep"]
    assert names["fields_of_the_widest_struct"] == ["mailbox/parts/turns/turn.py:1 Turn: 2"]
    assert names["files_outside_of_a_part_that_name_it"] == ["turns (1): roles/turns.py"]
    assert names["files with helpers: Journey of a call"][2:] == ["worker/deep/post.py"]
    assert names["callables_wired_after_construction"] == ["worker/deep/post.py:2 one.on_end"]
    assert names["fields_copied_by_hand"][0] == "roles/turns.py:1 a=one.a"
    assert names["functions_over_40_lines"] == ["worker/post.py:1 long (41)"]
    assert names["docstrings_that_say_pure_without_a_contract"] == ["mailbox/interfaces.py Letter"]
    assert names["files: Journey of a call"] == ["worker/one.py", "worker/two.py"]


def test_a_docstring_may_say_pure_where_the_contract_holds_its_package(tree):
    contract = 'name = "Pure modules do no I/O"\nsource_modules = ["swarm.mailbox"]\n'
    (tree / "pyproject.toml").write_text(f"[[tool.importlinter.contracts]]\n{contract}")
    figures = json.loads(measured(tree, "--json")[1])
    assert figures["docstrings_that_say_pure_without_a_contract"] == 0


def test_a_folder_without_the_product_is_an_error(tmp_path):
    code, told, error = measured(tmp_path)
    assert (code, told) == (2, "")
    assert "none of the folders mailbox, roles, worker, supervisor is here" in error


@pytest.mark.parametrize(
    ("limit", "code", "said"),
    [
        (0, 1, "lambda_placeholders: 1, and 0 are allowed\n    worker/one.py:7 on_end\n"),
        (1, 0, ""),
        (2, 0, "lambda_placeholders: 1; lower its limit (2) in pyproject.toml\n"),
    ],
)
def test_a_figure_over_its_limit_fails_the_check(tree, limit, code, said):
    settings = f"[tool.code-figures]\nlambda_placeholders = {limit}\n"
    (tree / "pyproject.toml").write_text(settings)
    assert measured(tree, "--check")[:2] == (code, said)
