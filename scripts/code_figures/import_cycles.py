"""Modules and folders that import each other in a circle; those for the type checker count too."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def import_circles(sources: list[Source], *, inside_functions: bool = False) -> list[list[str]]:
    """Each circle as its modules in order of names: the strongly connected groups of two and more.

    Imports inside functions run later and break a circle for Python, not for who reads: they count
    if `inside_functions`.
    """
    graph = import_graph(sources, inside_functions=inside_functions)
    return _circles({module: sorted(found) for module, found in graph.items()})


def folder_circles(sources: list[Source]) -> list[list[str]]:
    """The same for folders, as paths: each with those that its files import, also in functions.

    Between top-level packages import-linter holds the direction; here a circle lies within one.
    """
    folders = {source.module: str(source.path.parent) for source in sources}
    graph: dict[str, set[str]] = {folder: set() for folder in folders.values()}
    for module, found in import_graph(sources, inside_functions=True).items():
        graph[folders[module]] |= {folders[other] for other in found} - {folders[module]}
    return _circles({folder: sorted(found) for folder, found in graph.items()})


def import_graph(sources: list[Source], *, inside_functions: bool) -> dict[str, set[str]]:
    """Module → the modules of the product that it imports."""
    modules = {source.module for source in sources}
    graph: dict[str, set[str]] = {}
    for source in sources:
        nodes = ast.walk(source.tree) if inside_functions else _statements(source.tree)
        found = {module for _, module in imported_names(source, modules, nodes)}
        graph[source.module] = found - {source.module}
    return graph


def imported_names(
    source: Source, modules: set[str], nodes: Iterable[ast.AST]
) -> Iterator[tuple[str, str]]:
    """Of each import among `nodes`: the name that the file knows it by, and the module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in modules:
                    yield alias.asname or alias.name.partition(".")[0], alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(node, source)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                module = inner if inner in modules else base
                if module in modules:
                    yield alias.asname or alias.name, module


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


def _circles(graph: Mapping[str, list[str]]) -> list[list[str]]:
    return sorted(sorted(group) for group in _connected(graph) if len(group) > 1)


def _connected(graph: Mapping[str, list[str]]) -> list[list[str]]:
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
