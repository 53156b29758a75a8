"""No file of the product imports what another project keeps to itself: a release may move it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    path
    for name in ("mailbox", "roles", "worker", "supervisor")
    for path in (ROOT / name).rglob("*.py")
)


def private_imports(source: str) -> list[str]:
    """What a file imports by a name that begins with one `_`, of any package but this one."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found += [f"{node.module}.{one.name}" for one in node.names]
    return [
        name
        for name in found
        if not name.startswith(("swarm.", "__future__"))
        if any(word.startswith("_") and word != "__main__" for word in name.split("."))
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from mcp.shared._streams import ReadStream", ["mcp.shared._streams.ReadStream"]),
        ("import trio._core", ["trio._core"]),
        ("def f():\n    from click import _compat", ["click._compat"]),
        ("from mcp import types as _types\nfrom . import _x\nimport json as _json", []),
    ],
)
def test_a_private_name_is_seen_wherever_it_is_imported(source, found):
    assert private_imports(source) == found


def test_nothing_private_of_another_project_is_imported():
    private = {
        str(path.relative_to(ROOT)): names
        for path in FILES
        if (names := private_imports(path.read_text(encoding="utf-8")))
    }
    assert private == {}
