"""What a change of one fact must touch: wide structs, copied fields, files that name a part."""

import ast
from pathlib import Path

from import_cycles import import_graph
from source import PACKAGES, Source

WIDEST = 10  # structs that are told by name
_FEW = 3  # fields that one call may copy: who needs a few of another's facts names them


def widest_structs(sources: list[Source]) -> list[tuple[int, str]]:
    """The number of fields of each struct, and `file:line name`; the widest first."""
    found: list[tuple[int, str]] = []
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and node.bases:
                fields = sum(_is_field(one) for one in node.body)
                found.append((fields, f"{source.path}:{node.lineno} {node.name}"))
    return sorted(found, key=lambda one: (-one[0], one[1]))


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and not ast.unparse(node.annotation).startswith("Class")


def copied_fields(sources: list[Source]) -> list[str]:
    """`file:line name=other.name` of each keyword of a call that copies more than a few fields of
    one other object under their own names: two structs for one fact.
    """
    found: list[str] = []
    for source in sources:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            copied: dict[str, list[str]] = {}
            for keyword in node.keywords:
                value = keyword.value
                if isinstance(value, ast.Attribute) and value.attr == keyword.arg:
                    text = f"{source.path}:{value.lineno} {keyword.arg}={ast.unparse(value)}"
                    copied.setdefault(ast.unparse(value.value), []).append(text)
            found += [text for texts in copied.values() if len(texts) > _FEW for text in texts]
    return found


def part_users(root: Path, sources: list[Source]) -> dict[str, list[str]]:
    """Part → the files outside of its folders that import from one of them.

    A part is a folder of `mailbox/parts`; it may have a folder of that name in each package.
    """
    place = root / "mailbox" / "parts"
    names = sorted(page.parent.name for page in place.glob("*/__init__.py"))
    graph = import_graph(sources, inside_functions=True)
    users: dict[str, list[str]] = {}
    for name in names:
        own = tuple(f"swarm.{package}.parts.{name}." for package in PACKAGES)
        users[name] = [
            str(source.path)
            for source in sources
            if not f"{source.module}.".startswith(own)
            if any(f"{module}.".startswith(own) for module in graph[source.module])
        ]
    return users
