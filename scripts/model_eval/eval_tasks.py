"""Twelve small tasks, each with the files of its repository and a program that checks the outcome.

A check never trusts a file that the model could have changed to pass: it writes its own tests, and
what runs code of the model runs in the sandbox.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

SWARM = Path(sys.executable).with_name("swarm")
_CHECK_LIMIT_S = 60
_UNITTEST = "python3 -m unittest -q"


class Outcome(NamedTuple):
    """What a try left behind."""

    folder: Path
    answer: str
    agents: int  # that were started, the first one included

    def text(self, name: str) -> str:
        """A file's text; "" if there is none."""
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def passes(self, script: str) -> bool:
        """True if this Python program ends with 0 in the folder, in the read-only sandbox."""
        command = [str(SWARM), "sandbox", "-s", "read-only", "-C", str(self.folder), "--"]
        try:
            done = subprocess.run(
                [*command, "python3", "-B", "-c", script],
                capture_output=True,
                timeout=_CHECK_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


class EvalTask(NamedTuple):
    """One task. `files`: path → text."""

    name: str
    prompt: str
    files: Mapping[str, str]
    is_solved: Callable[[Outcome], bool]


# --- questions ---------------------------------------------------------------------------------

_SERVICE = {
    "conf/app.toml": '[server]\nhost = "0.0.0.0"\nport = 8471\n\n[log]\nlevel = "info"\n',
    "README.md": "# Shop\n\nA small web service.\n",
    "src/main.py": "import tomllib\n\nprint(tomllib.load(open('conf/app.toml', 'rb')))\n",
}
_LOG = {
    "server.log": "".join(
        f"12:00:{n:02} {'ERROR' if n % 4 == 1 else 'INFO'} request {n}\n" for n in range(50)
    ),
    "README.md": "# Logs\n",
}
_BROKEN_PROGRAM = {
    "app.py": (
        "SETTINGS = {'host': 'localhost', 'timeout': 5}\n\n\n"
        "def connect():\n    return SETTINGS['host'], SETTINGS['retries']\n\n\nprint(connect())\n"
    ),
    "README.md": "# App\n",
}


def _says(*words: str) -> Callable[[Outcome], bool]:
    """The answer holds one of these as a whole word."""
    pattern = re.compile(rf"(?<![\w.]){'(?:' + '|'.join(words) + ')'}(?![\w])", re.IGNORECASE)
    return lambda outcome: pattern.search(outcome.answer) is not None


def _explored(outcome: Outcome) -> bool:
    return outcome.agents > 1 and _says("8471")(outcome)


# --- changes -------------------------------------------------------------------------------------

_CALC = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n",
    "test_calc.py": (
        "import unittest\n\nfrom calc import add, mul\n\n\nclass TestCalc(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n\n"
        "    def test_mul(self):\n        self.assertEqual(mul(2, 3), 6)\n"
    ),
}
_READER = {
    "data.py": "def load_data(path):\n    return open(path).read()\n",
    "main.py": "from data import load_data\n\nif __name__ == '__main__':\n"
    "    print(load_data('README.md'))\n",
    "lib/more.py": "import data\n\n\ndef size(path):\n    return len(data.load_data(path))\n",
    "README.md": "# Reader\n",
}
_NUMBERS = {"numbers_util.py": "def double(n):\n    return 2 * n\n", "README.md": "# Numbers\n"}
_PATCHED = {
    "greet.py": "def greet(name):\n    return 'Hello ' + name\n",
    "change.patch": (
        "--- a/greet.py\n+++ b/greet.py\n@@ -1,2 +1,2 @@\n def greet(name):\n"
        "-    return 'Hello ' + name\n+    return f'Good day, {name}!'\n"
    ),
}
_MANUAL = {
    "docs/guide.md": "# Guide\n\nYou will recieve a letter within two days.\nRead it well.\n",
    "README.md": "# Post\n",
}
_SETTINGS = {
    "settings.toml": "[http]\nretries = 3\ntimeout_s = 30\n\n[cache]\nsize = 100\n",
    "README.md": "# Settings\n",
}


def _adds(outcome: Outcome) -> bool:
    return outcome.passes("from calc import add, mul; assert add(2, 3) == 5 and mul(2, 3) == 6")


def _renamed(outcome: Outcome) -> bool:
    names = ("data.py", "main.py", "lib/more.py")
    if any("load_data" in outcome.text(name) for name in names):
        return False
    return outcome.passes(
        "import sys; sys.path.insert(0, 'lib'); import data, main, more;"
        "assert data.read_table('README.md') == main.read_table('README.md');"
        "assert more.size('README.md') == 9"
    )


def _even_and_tested(outcome: Outcome) -> bool:
    """The function works, and a test file tests it: the tests pass, and fail without it."""
    works = "from numbers_util import is_even, double; assert is_even(4) and not is_even(3)"
    tests = (
        "import sys, unittest; sys.path.insert(0, '.'); import numbers_util;"
        "{}suite = unittest.defaultTestLoader.discover('.');"
        "result = unittest.TextTestRunner().run(suite);"
        "sys.exit(not (result.testsRun and result.wasSuccessful()))"
    )
    wrong = "numbers_util.is_even = lambda n: n == 'never';"
    if not (
        outcome.passes(works) and outcome.passes("import numbers_util; numbers_util.double(1)")
    ):
        return False
    if "unittest" in outcome.text("test_numbers_util.py"):
        return outcome.passes(tests.format("")) and not outcome.passes(tests.format(wrong))
    plain = (  # tests as plain functions
        "import sys; sys.path.insert(0, '.'); import numbers_util;{}import test_numbers_util as t;"
        "found = [f for n, f in vars(t).items() if n.startswith('test') and callable(f)];"
        "assert found; [f() for f in found]"
    )
    return outcome.passes(plain.format("")) and not outcome.passes(plain.format(wrong))


def _greets(outcome: Outcome) -> bool:
    return outcome.passes("from greet import greet; assert greet('A') == 'Good day, A!'")


def _spelled(outcome: Outcome) -> bool:
    right = _MANUAL["docs/guide.md"].replace("recieve", "receive")
    return outcome.text("docs/guide.md").strip() == right.strip()


def _set(outcome: Outcome) -> bool:
    try:
        found = tomllib.loads(outcome.text("settings.toml"))
    except tomllib.TOMLDecodeError:
        return False
    return found == {"http": {"retries": 3, "timeout_s": 45}, "cache": {"size": 100}}


def _noted(outcome: Outcome) -> bool:
    return outcome.text("notes/todo.txt").strip() == "Call the printer."


TASKS = (
    EvalTask(
        "find-fact",
        "Which port does the server of this project listen on? Look into its configuration.",
        _SERVICE,
        _says("8471"),
    ),
    EvalTask(
        "list-files",
        "How many Python files are in this project, in all folders? Answer with the number.",
        {f"part{n}/module{n}.py": "X = 1\n" for n in range(7)} | {"a.txt": "a\n", "b.md": "b\n"},
        _says("7", "seven"),
    ),
    EvalTask(
        "rename-symbol",
        "Rename the function load_data to read_table everywhere in this project.",
        _READER,
        _renamed,
    ),
    EvalTask(
        "fix-test",
        f"The test in test_calc.py fails. Fix the bug. Run the tests with: {_UNITTEST}",
        _CALC,
        _adds,
    ),
    EvalTask(
        "add-function",
        "Add a function is_even(n) to numbers_util.py that returns True for even numbers, and a "
        f"test for it in test_numbers_util.py. Run the tests with: {_UNITTEST}",
        _NUMBERS,
        _even_and_tested,
    ),
    EvalTask("apply-patch", "Apply the patch in the file change.patch.", _PATCHED, _greets),
    EvalTask(
        "spawn-explorer",
        "Start an explorer agent that finds out which port the server of this project listens on, "
        "wait for its answer, and tell me the port.",
        _SERVICE,
        _explored,
    ),
    EvalTask(
        "fix-typo",
        "There is a spelling mistake in docs/guide.md: correct the word recieve.",
        _MANUAL,
        _spelled,
    ),
    EvalTask("change-config", "Set timeout_s to 45 in settings.toml.", _SETTINGS, _set),
    EvalTask(
        "count-lines",
        "How many lines of server.log contain the word ERROR? Count them with a command.",
        _LOG,
        _says("13", "thirteen"),
    ),
    EvalTask(
        "create-file",
        "Create the file notes/todo.txt. It holds this one line: Call the printer.",
        {"README.md": "# Notes\n"},
        _noted,
    ),
    EvalTask(
        "explain-error",
        "Run python3 app.py and tell me why it fails: which key is missing?",
        _BROKEN_PROGRAM,
        _says("'?retries'?"),
    ),
)
