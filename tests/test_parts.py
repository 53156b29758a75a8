"""A part is named by the lists of parts alone: whoever changes it reads its own folders."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("mailbox", "roles", "worker", "supervisor")
LISTS = {
    "mailbox/parts/part_messages.py",
    "roles/config/part_keys.py",
    "worker/parts/key_parts.py",
    "worker/parts/part_tools.py",
    "worker/tools/interface/tool_parts.py",
    "worker/parts/turn_parts.py",
    "supervisor/part_calls/part_services.py",
    "supervisor/parts/part_lines.py",
    "supervisor/base/part_names.py",
    "supervisor/parts/part_setup.py",
    "supervisor/parts/run_parts.py",
}
PARTS = sorted(  # what of a part travels is always there; a folder `parts` may hold more
    one.name for one in (ROOT / "mailbox" / "parts").iterdir() if (one / "__init__.py").exists()
)


@cache
def imports() -> dict[Path, set[str]]:
    """What each file of the product imports."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {path: modules_named(path) for path in files}


def modules_named(path: Path) -> set[str]:
    """What a file imports, as paths below the root with dots; relative ones resolved."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            folders = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            name = ".".join((*folders, *(node.module or "").split(".")))
            found |= {f"{name}.{one.name}" for one in node.names}
    return {name.removeprefix("swarm.") for name in found}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_imported_by_its_own_folders_and_the_lists_alone(part):
    inside = {f"{package}.parts.{part}" for package in PACKAGES}
    importers = {
        str(path.relative_to(ROOT))
        for path, names in imports().items()
        if f"/parts/{part}/" not in str(path)
        if any(name.startswith(tuple(inside)) for name in names)
    }
    assert importers <= LISTS


@pytest.mark.parametrize("part", PARTS)
def test_a_part_touches_eight_files_at_most_outside_its_own_folders(part):
    name = re.compile(rf"\b{part}\b")
    naming = {one for one in LISTS if name.search((ROOT / one).read_text("utf-8"))}
    assert 0 < len(naming) <= 8


def test_the_lists_are_there():
    assert PARTS
    assert {one for one in LISTS if not (ROOT / one).exists()} == set()
