"""Parts that are joined after they were made, which hides from a constructor what it needs."""

import ast
from collections.abc import Iterator

from source import Source

_OWN = ("self", "cls")


def placeholders(sources: list[Source]) -> list[str]:
    """`file:line attribute`: `self.x = lambda …: constant`, which somebody replaces later."""
    found: list[str] = []
    for source, target, value in _assignments(sources):
        if _is_own(target) and isinstance(value, ast.Lambda) and _is_constant(value.body):
            found.append(f"{source.path}:{target.lineno} {target.attr}")
    return found


def outside_sets(sources: list[Source]) -> list[str]:
    """`file:line text`: every field of an object that is set outside of the file of its class.

    Goes by names: counted is `other.field = value` where a class of the product declares that
    field, and none in this file does. A file may change its own records; frozen structs cannot be
    changed; objects of libraries have no class here. Most of these are state that changes, not
    wiring; `late_wiring` counts that.
    """
    return [
        f"{source.path}:{target.lineno} {ast.unparse(target)}"
        for source, target, _ in _outside_assignments(sources)
    ]


def late_wiring(sources: list[Source]) -> list[str]:
    """Of `outside_sets`, those that hand over what is called later: a callback, a partial."""
    callables = _declared_callables(sources)
    return [
        f"{source.path}:{target.lineno} {ast.unparse(target)}"
        for source, target, value in _outside_assignments(sources)
        if target.attr in callables or _is_made_callable(value)
    ]


def _outside_assignments(
    sources: list[Source],
) -> Iterator[tuple[Source, ast.Attribute, ast.expr | None]]:
    fields = {source.path: _mutable_fields(source) for source in sources}
    known = set[str]().union(*fields.values())
    for source, target, value in _assignments(sources):
        if not _is_own(target) and target.attr in known - fields[source.path]:
            yield source, target, value


def _mutable_fields(source: Source) -> set[str]:
    """The fields that the classes of a file declare, frozen ones left out."""
    found: set[str] = set()
    for kind in ast.walk(source.tree):
        if not isinstance(kind, ast.ClassDef) or _is_frozen(kind):
            continue
        for node in ast.walk(kind):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found |= {node.attr} if _is_own(node) else set()
    return found


def _is_frozen(kind: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).rpartition(".")[2] for base in kind.bases}
    marks = {word.arg for word in kind.keywords}
    decorators = {ast.unparse(one) for one in kind.decorator_list}
    return bool(
        bases & {"Value", "NamedTuple", "Protocol", "Enum"}
        or "frozen" in marks
        or any("frozen=True" in one for one in decorators)
    )


def _assignments(
    sources: list[Source],
) -> Iterator[tuple[Source, ast.Attribute, ast.expr | None]]:
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    for one, value in _pairs(target, node.value):
                        yield source, one, value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
                yield source, node.target, node.value


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.Attribute, ast.expr | None]]:
    if isinstance(target, ast.Attribute):
        yield target, value
    elif isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [None] * len(target.elts)
        for one, part in zip(target.elts, values, strict=False):
            if isinstance(one, ast.Attribute):
                yield one, part


def _declared_callables(sources: list[Source]) -> set[str]:
    """Attributes that are a `Callable` wherever a class of the product declares one so named."""
    called: set[str] = set()
    other: set[str] = set()
    for source in sources:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.AnnAssign):
                continue
            if isinstance(node.target, ast.Attribute) and _is_own(node.target):
                name = node.target.attr
            elif isinstance(node.target, ast.Name):
                name = node.target.id
            else:
                continue
            (called if _names_callable(node.annotation) else other).add(name)
    return called - other


def _names_callable(annotation: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "Callable" for n in ast.walk(annotation))


def _is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id in _OWN


def _is_constant(body: ast.expr) -> bool:
    return isinstance(body, ast.Constant) or (isinstance(body, ast.Tuple) and not body.elts)


def _is_made_callable(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Lambda) or (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "partial"
    )
