"""The journeys of docs/architecture.md: which files a reader follows, and what these call."""

import ast
import re
from pathlib import Path

from import_cycles import imported_names
from source import Source

_HEADING = re.compile(r"^#+ +(Journey\b.*?)\s*$")
_HOP = re.compile(r"`([\w/.-]+\.py):(\w[\w.]*)`")
Hop = tuple[str, str]  # file, function


def journeys(page: Path) -> dict[str, list[Hop]]:
    """Heading → its hops, in order, each once."""
    found: dict[str, list[Hop]] = {}
    hops: list[Hop] | None = None
    for line in page.read_text(encoding="utf-8").splitlines() if page.is_file() else ():
        if line.startswith("#"):
            heading = _HEADING.match(line)
            hops = found.setdefault(heading.group(1), []) if heading else None
        elif hops is not None:
            hops += [(file, name) for file, name in _HOP.findall(line)]
    return {name: list(dict.fromkeys(one)) for name, one in found.items()}


def files_of(hops: list[Hop]) -> list[str]:
    """The different files of a journey, in order."""
    return list(dict.fromkeys(file for file, _ in hops))


def files_with_helpers(hops: list[Hop], sources: list[Source]) -> list[str]:
    """Those files, and the files of what its functions name: what a reader has to open."""
    by_path = {str(source.path): source for source in sources}
    paths = {source.module: str(source.path) for source in sources}
    found = dict.fromkeys(files_of(hops))
    for file, name in hops:
        source = by_path.get(file)
        if source is None:
            continue
        known = dict(imported_names(source, set(paths), ast.walk(source.tree)))
        found |= dict.fromkeys(paths[known[word]] for word in _words(source, name) if word in known)
    return list(found)


def _words(source: Source, function: str) -> list[str]:
    """The names that stand in the body of `function` or `Class.function`."""
    last = function.rpartition(".")[2]
    return [
        word.id
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == last
        for line in node.body
        for word in ast.walk(line)
        if isinstance(word, ast.Name)
    ]
