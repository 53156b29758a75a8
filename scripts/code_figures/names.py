"""Names that stand for two things: files with one base name, public classes with one name."""

import ast
from collections import defaultdict

from source import Source


def shared_base_names(sources: list[Source], *, by_package: bool) -> dict[str, list[str]]:
    """Base name → the files that are called so, where there are two or more.

    `by_package`: only within one top-level package; the name is then `package/base.py`.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        if source.path.name != "__init__.py":
            name = f"{source.package}/{source.path.name}" if by_package else source.path.name
            found[name].append(str(source.path))
    return {name: files for name, files in sorted(found.items()) if len(files) > 1}


def repeated_classes(sources: list[Source]) -> dict[str, list[str]]:
    """Public class → the files that define one so named at their top, where there are several."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(source.path))
    return {name: files for name, files in sorted(found.items()) if len(files) > 1}
