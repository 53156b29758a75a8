"""Docstrings that call code pure though no import contract holds its module to that."""

import ast
import re
import tomllib
from pathlib import Path

from source import Source

CONTRACT = "Pure modules do no I/O"
_PURE = re.compile(r"\bpure\b(?!-)", re.IGNORECASE)  # not: pure-Python
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def pure_modules(root: Path) -> tuple[str, ...]:
    """The modules that the contract of that name in pyproject.toml lists; none without it."""
    page = root / "pyproject.toml"
    settings = tomllib.loads(page.read_text(encoding="utf-8")) if page.is_file() else {}
    contracts = settings.get("tool", {}).get("importlinter", {}).get("contracts", [])
    listed = (one["source_modules"] for one in contracts if one["name"] == CONTRACT)
    return tuple(next(listed, ()))


def unheld_claims(sources: list[Source], held: tuple[str, ...]) -> list[str]:
    """Each docstring that says "pure" outside of the modules `held` and of those below them."""
    found: list[str] = []
    for source in sources:
        if any(f"{source.module}.".startswith(f"{module}.") for module in held):
            continue
        documented = (node for node in ast.walk(source.tree) if isinstance(node, _Documented))
        found += [
            f"{source.path} {getattr(node, 'name', '(the module)')}"
            for node in documented
            if _PURE.search(ast.get_docstring(node) or "")
        ]
    return found
