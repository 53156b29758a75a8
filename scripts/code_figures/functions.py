"""Functions that do not fit on a screen, and imports that only a type checker sees."""

import ast

from source import Source

MAX_LINES = 40  # of a function, decorators and docstring left out


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
    if ast.get_docstring(node) is None:
        return last - node.lineno + 1
    docstring = node.body[0]
    return last - node.lineno - ((docstring.end_lineno or 0) - docstring.lineno)


def type_checker_imports(sources: list[Source]) -> list[str]:
    """`file:line` of every `if TYPE_CHECKING:`."""
    return [
        f"{source.path}:{node.lineno}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    ]
