"""Every module that opens, makes or removes files by name stands in the sandbox page's table.

A new one is a question that must be answered there: who names the path, and what keeps a command
from leading it elsewhere.
"""

import ast
import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
PACKAGES = ("mailbox", "roles", "worker", "supervisor")
WAYS = ("door", "own", "kernel", "person", "trust", "plan")
_DOOR = "swarm.mailbox.base.safe_open"
_MODULES = frozenset({"os", "shutil", "tempfile", "tarfile", "zipfile", "io"})
_OF_MODULES = frozenset({
    "open", "unlink", "remove", "rename", "replace", "rmdir", "removedirs", "mkdir", "makedirs",
    "symlink", "link", "truncate", "chmod", "chown", "lchown", "utime", "scandir", "listdir",
    "walk", "fwalk", "readlink", "mkfifo", "mknod", "rmtree", "copyfile", "copy", "copy2",
    "copytree", "move", "mkstemp", "mkdtemp", "TemporaryFile", "NamedTemporaryFile",
    "TemporaryDirectory", "SpooledTemporaryFile",
})  # fmt: skip
_OF_PATHS = frozenset({
    "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "rmdir", "mkdir", "touch",
    "symlink_to", "hardlink_to", "iterdir", "glob", "rglob", "chmod", "readlink",
})  # fmt: skip
_MODES = re.compile(r"[rwaxbt+]{1,4}\Z")


def _touches(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name == "open"
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _MODULES:
            return name in _OF_MODULES
        case ast.Attribute(attr="open"):
            first = call.args[0] if call.args else None
            has_mode = isinstance(first, ast.Constant) and _MODES.match(str(first.value))
            return bool(has_mode) or any(one.arg == "encoding" for one in call.keywords)
        case ast.Attribute(attr=name):
            return name in _OF_PATHS
        case _:
            return False


def _is_telling(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module in (
            _DOOR,
            "safe_open",
            "base.safe_open",
        )  # the others within its package
    return isinstance(node, ast.Call) and _touches(node)


def _touching() -> set[str]:
    found: set[str] = set()
    for package in PACKAGES:
        for path in (TOP / package).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            if any(_is_telling(node) for node in ast.walk(tree)):
                found.add(str(path.relative_to(TOP)))
    return found


def _rows() -> list[tuple[tuple[str, ...], str]]:
    """The modules of each row, and the word that says how they open."""
    page = (TOP / "docs" / "sandbox.md").read_text("utf-8")
    _, found, section = page.partition("\n## Files that swarm itself opens\n")
    assert found, "the page has lost its table"
    rows: list[tuple[tuple[str, ...], str]] = []
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            assert len(cells) == 3, line
            rows.append((tuple(re.findall(r"`([^`]+\.py)`", cells[0])), cells[2].split(":")[0]))
    return rows


def test_every_module_that_touches_files_is_in_the_table_once_and_no_other_is():
    listed = [module for modules, _ in _rows() for module in modules]
    assert sorted(listed) == sorted(_touching())


def test_every_row_says_by_which_way_its_files_are_opened():
    assert {way for _, way in _rows()} <= set(WAYS)


@pytest.mark.parametrize(
    "line",
    [
        "path.read_text()", "os.open(path, 0)", "open(path)", "path.open('rb')", "os.unlink(x)",
        "shutil.rmtree(x)", "path.open(encoding='utf-8')", "folder.iterdir()",
    ],
)  # fmt: skip
def test_the_ways_to_touch_a_file_are_recognized(line):
    call = ast.parse(line, mode="eval").body
    assert isinstance(call, ast.Call) and _touches(call)


@pytest.mark.parametrize("line", ["self.gate.open()", "text.replace('a', 'b')", "line.remove(x)"])
def test_what_only_sounds_like_it_is_not_taken_for_it(line):
    call = ast.parse(line, mode="eval").body
    assert isinstance(call, ast.Call) and not _touches(call)
