"""The tasks of scripts/model-eval: checks refuse an untouched repository, and take the solution."""

import pytest
from eval_report import add_up, render_table, solved_tasks
from eval_run import TryResult
from eval_tasks import TASKS, Outcome

EVEN = "def double(n):\n    return 2 * n\n\n\ndef is_even(n):\n    return n % 2 == 0\n"
EVEN_TEST = """import unittest
from numbers_util import is_even
class T(unittest.TestCase):
    def test_it(self):
        self.assertTrue(is_even(4))
        self.assertFalse(is_even(3))
"""
SOLUTIONS = {
    "find-fact": ("The port is 8471.", {}),
    "list-files": ("There are 7 Python files.", {}),
    "rename-symbol": (
        "",
        {
            "data.py": "def read_table(path):\n    return open(path).read()\n",
            "main.py": "from data import read_table\n",
            "lib/more.py": "import data\ndef size(path):\n    return len(data.read_table(path))\n",
        },
    ),
    "fix-test": (
        "",
        {"calc.py": "def add(a, b):\n    return a + b\ndef mul(a, b): return a * b\n"},
    ),
    "add-function": ("", {"numbers_util.py": EVEN, "test_numbers_util.py": EVEN_TEST}),
    "apply-patch": ("", {"greet.py": "def greet(name):\n    return f'Good day, {name}!'\n"}),
    "spawn-explorer": ("It is 8471.", {}),
    "fix-typo": (
        "",
        {"docs/guide.md": "# Guide\n\nYou will receive a letter within two days.\nRead it well.\n"},
    ),
    "change-config": (
        "",
        {"settings.toml": "[http]\nretries = 3\ntimeout_s = 45\n\n[cache]\nsize = 100\n"},
    ),
    "count-lines": ("13 lines contain it.", {}),
    "create-file": ("", {"notes/todo.txt": "Call the printer.\n"}),
    "explain-error": ("The key 'retries' is missing.", {}),
}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_only_the_solution_passes_the_check_of_a_task(task, tmp_path):
    answer, changed = SOLUTIONS[task.name]
    write(tmp_path, task.files)
    assert not task.is_solved(Outcome(tmp_path, "Done: 80, 4, 471.", agents=2))
    write(tmp_path, changed)
    assert task.is_solved(Outcome(tmp_path, answer, agents=2))


def test_a_test_that_cannot_fail_and_an_answer_without_an_explorer_are_no_solution(tmp_path):
    tasks = {task.name: task for task in TASKS}
    write(tmp_path, {"numbers_util.py": EVEN, "test_numbers_util.py": "def test_it():\n    pass\n"})
    assert not tasks["add-function"].is_solved(Outcome(tmp_path, "", agents=1))
    assert not tasks["spawn-explorer"].is_solved(Outcome(tmp_path, "8471", agents=1))


def test_the_table_adds_up_tries_and_names_false_successes():
    tries = [
        TryResult("find-fact", 1, solved=False, exit_code=0, status="completed", answer=" "),
        TryResult("find-fact", 2, solved=True, exit_code=0, status="completed", calls=3, parsed=3,
                  input_tokens=900, output_tokens=90, seconds=12.0, answer="8471"),
        TryResult("fix-test", 1, solved=False, exit_code=1, status="failed", calls=4, parsed=3,
                  corrections=1, seconds=30.0),
    ]  # fmt: skip
    assert add_up(tries).false_successes == 1
    assert solved_tasks(tries) == 1
    lines = render_table(tries).splitlines()
    assert lines[1].split() == ["find-fact", "1/2", "3/3", "0", "900", "90", "12", "completed", "0"]
    assert lines[3].split()[:3] == ["all", "1/3", "6/7"]
    assert lines[-1].startswith("1 of 2 tasks solved at least once; 1 runs ended")
