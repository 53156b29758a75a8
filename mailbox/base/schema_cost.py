"""How many comparisons a JSON schema asks for with a value, counted before anything is compared.

References let a short schema stand for a huge one: forty parts, each of which refers to the next
one twice, are a million million comparisons. A pair of a part and a value is counted once and
multiplied by how often it would be compared, so the count itself takes linear time. No I/O.
"""

from collections.abc import Iterator, Sequence
from typing import TypeGuard
from urllib.parse import unquote

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SAME = ("not", "if", "then", "else")  # for the same value
_SAME_EACH = ("allOf", "anyOf", "oneOf")
_SAME_NAMED = ("dependentSchemas", "dependencies")
_ITEMS = ("items", "additionalItems", "contains", "unevaluatedItems", "prefixItems")
_MEMBERS = ("additionalProperties", "unevaluatedProperties")

Part = dict[object, object]


class UncountableSchema(ValueError):
    """It cannot be said what a reference of the schema means."""


class SchemaCost:
    """Counts for one schema.

    Raises UncountableSchema at its start if a part has an address of its own (`$id` below the top),
    and in `count` for a reference to somewhere else. Only a schema with references needs it.
    """

    def __init__(self, schema: dict[str, object]) -> None:
        self._root: Part = dict(schema.items())
        parts = list(_walk(self._root))
        self.has_references = any(name in part for part in parts for name in _REFERENCES)
        address = "id" if "draft-04" in str(schema.get("$schema", "")) else "$id"
        has_address = any(isinstance(part.get(address), str) for part in parts[1:])
        if self.has_references and has_address:
            raise UncountableSchema(f"a part of it has an address ({address}) of its own")
        self._anchors = {
            f"#{part[name]}": part
            for part in parts
            for name in ("$anchor", "$dynamicAnchor")
            if name in part
        }
        self._counted: dict[tuple[int, int], int] = {}
        self.steps = 0  # of the last count: what is compared if nothing is compared twice

    def count(self, value: object) -> int:
        """Comparisons with this value. Raises UncountableSchema, or RecursionError if too deep."""
        self._counted, self.steps = {}, 0
        return self._count(self._root, value)

    def _count(self, part: object, value: object) -> int:
        if not _is_table(part):
            return 1
        key = (id(part), id(value))
        if key not in self._counted:
            self._counted[key] = 0  # a part that refers to itself for the same value ends there
            pairs = list(self._compared(part, value))
            self.steps += len(pairs)
            self._counted[key] = 1 + sum(self._count(below, one) for below, one in pairs)
        return self._counted[key]

    def _compared(self, part: Part, value: object) -> Iterator[tuple[object, object]]:
        for name in _REFERENCES:
            if name in part:
                yield self._referred(part[name]), value
        for name in _SAME:
            if name in part:
                yield part[name], value
        for name in _SAME_EACH:
            yield from ((one, value) for one in _list(part.get(name)))
        for name in _SAME_NAMED:
            yield from ((one, value) for one in _table(part.get(name)).values())
        if _is_list(value):
            for name in _ITEMS:
                below = part.get(name)
                if _is_list(below):
                    yield from zip(below, value, strict=False)
                elif below is not None:
                    yield from ((below, one) for one in value)
        elif _is_table(value):
            yield from _members(part, value)

    def _referred(self, given: object) -> object:
        text = str(given)
        if text in ("", "#"):
            return self._root
        if text in self._anchors:
            return self._anchors[text]
        here: object = self._root
        if not text.startswith("#/"):
            raise UncountableSchema(f"it refers to {text[:80]!r}")
        for step in unquote(text[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if _is_list(here) and name.isdecimal() and int(name) < len(here):
                here = here[int(name)]
            elif _is_table(here) and name in here:
                here = here[name]
            else:
                raise UncountableSchema(f"it refers to {text[:80]!r}")
        return here


def _members(part: Part, value: Part) -> Iterator[tuple[object, object]]:
    named = _table(part.get("properties"))
    yield from ((named[name], one) for name, one in value.items() if name in named)
    for below in _table(part.get("patternProperties")).values():
        yield from ((below, one) for one in value.values())
    for name in _MEMBERS:
        if (below := part.get(name)) is not None:
            yield from ((below, one) for one in value.values())
    if (below := part.get("propertyNames")) is not None:
        yield from ((below, name) for name in value)


def _walk(part: object) -> Iterator[Part]:
    """All tables of a schema, the top first; without recursion."""
    waiting: list[object] = [part]
    while waiting:
        here = waiting.pop()
        if _is_table(here):
            yield here
            waiting += here.values()
        elif _is_list(here):
            waiting += here


def _list(value: object) -> Sequence[object]:
    return value if _is_list(value) else ()


def _table(value: object) -> Part:
    return value if _is_table(value) else {}


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _is_table(value: object) -> TypeGuard[Part]:
    return isinstance(value, dict)
