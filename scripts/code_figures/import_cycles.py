"""Modules that import each other in a circle. Imports for the type checker alone count as well."""

import ast
from collections.abc import Iterator

from source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def import_circles(sources: list[Source]) -> list[list[str]]:
    """Each circle as its modules in order of names: the strongly connected groups of two and more.

    Imports inside functions are left out: they run later, and break a circle on purpose.
    """
    modules = {source.module for source in sources}
    graph = {source.module: sorted(_imported(source, modules)) for source in sources}
    return sorted(sorted(group) for group in _connected(graph) if len(group) > 1)


def _imported(source: Source, modules: set[str]) -> set[str]:
    found: set[str] = set()
    for node in _statements(source.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in modules}
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(node, source)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found |= {inner if inner in modules else base} & modules
    return found - {source.module}


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, _FUNCTIONS):
            yield child
            yield from _statements(child)


def _base_of(node: ast.ImportFrom, source: Source) -> str:
    if not node.level:
        return node.module or ""
    package = ("swarm", *source.path.parent.parts)
    kept = package[: len(package) - (node.level - 1)]
    return ".".join((*kept, node.module) if node.module else kept)


def _connected(graph: dict[str, list[str]]) -> list[list[str]]:
    """Tarjan's strongly connected components, without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []
    for start in graph:
        if start in index:
            continue
        work = [(start, iter(graph[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(graph[other])))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    place = stack.index(node)
                    groups.append(stack[place:])
                    del stack[place:]
    return groups
