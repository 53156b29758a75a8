"""Every module that starts a process stands in the sandbox page's table, with how it is held.

A new one is a question that must be answered there: who names the program, and what keeps an agent
from exchanging it.
"""

import ast
import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
PACKAGES = ("mailbox", "roles", "worker", "supervisor")
WAYS = ("own", "held", "system", "sandbox", "launcher")
_OF_MODULES = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput"},
    "os": {
        "fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp", "startfile",
        "execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe",
        "spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe",
    },
    "trio": {"run_process"},
    "lowlevel": {"open_process"},
    "anyio": {"run_process", "open_process"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "pty": {"spawn", "fork"},
    "webbrowser": {"open", "open_new", "open_new_tab"},
    "click": {"edit", "launch", "echo_via_pager"},
    "shutil": {"which"},  # it finds a program by PATH, wherever PATH leads
}  # fmt: skip
_OF_ANYTHING = {"open_in_editor", "fork_exec"}  # of a library's object
_MODULES = {"multiprocessing", "concurrent.futures", "pexpect", "ptyprocess", "plumbum", "sh"}


def _starts(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if name in _OF_MODULES.get(
            module, ()
        ):
            return True
        case ast.Attribute(value=ast.Attribute(attr=module), attr=name):
            return name in _OF_MODULES.get(module, ()) or name in _OF_ANYTHING
        case ast.Attribute(attr=name):
            return name in _OF_ANYTHING
        case ast.ImportFrom(module=module, names=names) if module in _OF_MODULES:
            return any(one.name in _OF_MODULES[module] for one in names)
        case ast.Import(names=names):
            return any(one.name in _MODULES for one in names)
        case _:
            return False


def _starting() -> set[str]:
    found: set[str] = set()
    for package in PACKAGES:
        for path in (TOP / package).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            if any(_starts(node) for node in ast.walk(tree)):
                found.add(str(path.relative_to(TOP)))
    return found


def _table() -> dict[str, str]:
    text = (TOP / "docs/sandbox.md").read_text("utf-8")
    _, _, section = text.partition("## Programs that swarm itself starts\n")
    section, _, _ = section.partition("\n## ")
    rows: dict[str, str] = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            rows |= dict.fromkeys(re.findall(r"`([\w/]+\.py)`", cells[0]), cells[2])
    return rows


def test_every_module_that_starts_a_process_is_in_the_table() -> None:
    assert _starting() == set(_table())


@pytest.mark.parametrize(("module", "how"), sorted(_table().items()))
def test_each_is_held_in_one_of_the_ways(module: str, how: str) -> None:
    assert how.startswith(tuple(f"{way}:" for way in WAYS)), module


@pytest.mark.parametrize(
    ("code", "starts"),
    [
        ("subprocess.run(['x'])", True),
        ("from subprocess import Popen", True),
        ("trio.lowlevel.open_process(x)", True),
        ("asyncio.create_subprocess_exec('x')", True),
        ("run = subprocess.run", True),
        ("os.fork()", True),
        ("import multiprocessing", True),
        ("webbrowser.open(url)", True),
        ("buffer.open_in_editor()", True),
        ("subprocess.PIPE", False),
        ("os.path.join('a')", False),
        ("self.run()", False),
    ],
)
def test_a_start_is_recognised(code: str, starts: bool) -> None:
    assert any(_starts(node) for node in ast.walk(ast.parse(code))) is starts
