"""Functions that do not fit on a screen, and imports that only a type checker sees."""

import ast

from source import Source

MAX_LINES = 40  # of a function; decorators, docstring and what `__init__` only stores left out


def long_functions(sources: list[Source]) -> list[str]:
    """`file:line name (lines)` of every function over the limit."""
    return [
        f"{source.path}:{node.lineno} {node.name} ({lines})"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := _lines_of(node)) > MAX_LINES
    ]


def _lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    last = node.end_lineno or node.lineno
    lines = last - node.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= _height(node.body[0])
    if node.name == "__init__":  # a line for each attribute is read faster than tuples of them
        lines -= sum(_height(one) for one in node.body if _stores_attribute(one))
    return lines


def _height(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _stores_attribute(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute()]) | ast.AnnAssign(target=ast.Attribute()):
            return True
        case _:
            return False


def type_checker_imports(sources: list[Source]) -> list[str]:
    """`file:line` of every `if TYPE_CHECKING:`."""
    return [
        f"{source.path}:{node.lineno}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    ]
