"""Parses YAML that others wrote: bounded in size, depth and time. Pure.

Its import takes 15 ms.
"""

import re
from collections.abc import Iterable
from typing import Protocol, cast

import yaml

from .bounded_formats import MAX_CHARS, MAX_DEPTH, UnreadableText, check_size

_MAX_NUMBER_CHARS = 128
_MAX_DIRECTIVES = 16
_MAX_PARTS = 1_000_000  # of a document, with all that its aliases stand for
_NUMBER = re.compile(r"[-+_:.]*+[0-9][-+_:.0-9]*+")


class _Loader(Protocol):
    def get_single_node(self) -> yaml.Node | None: ...
    def construct_document(self, node: yaml.Node) -> object: ...
    def dispose(self) -> None: ...


def parse_yaml_text(text: str) -> object:
    """The value of one YAML document. Raises yaml.YAMLError, or ValueError if a bound is passed."""
    return compose_yaml_text(text)[1]


def compose_yaml_text(
    text: str, *, most_chars: int = MAX_CHARS, aliases: bool = False
) -> tuple[yaml.Node | None, object]:
    """The tree of a YAML document, which knows the lines, and its value; None and None if empty.

    Raises yaml.YAMLError for what is no YAML, and ValueError for YAML that is too large or nested
    too deeply, or has long numbers. An alias can multiply its anchor without end: none may stand
    in the text unless `aliases` is set, and then all that it says has at most 1,000,000 parts.
    """
    kind = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    check_size(text, most_chars)
    if text.count("\n%") + text.startswith("%") > _MAX_DIRECTIVES:
        raise UnreadableText(f"more than {_MAX_DIRECTIVES} directives (lines that begin with %)")
    _check_events(yaml.parse(text, kind), aliases=aliases)
    loader = cast(_Loader, kind(text))
    try:
        node = loader.get_single_node()
        if aliases and node is not None:
            _count_parts(node, {}, frozenset())
        return node, None if node is None else loader.construct_document(node)
    except RecursionError as error:
        raise UnreadableText("nested too deeply") from error
    finally:
        loader.dispose()


def _check_events(events: Iterable[yaml.Event], *, aliases: bool) -> None:
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent) and not aliases:
            line = event.start_mark.line if event.start_mark else None
            raise UnreadableText("aliases (*name) are not allowed", line=line)
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > MAX_DEPTH:
                raise UnreadableText(f"nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and _is_long_number(event):
            raise UnreadableText(f"a number has more than {_MAX_NUMBER_CHARS} characters")


def _is_long_number(event: yaml.ScalarEvent) -> bool:
    """True if YAML might compute a number from this: `1:02:03` counts in sixties."""
    if len(event.value) <= _MAX_NUMBER_CHARS or _NUMBER.fullmatch(event.value) is None:
        return False
    return not event.style or event.tag is not None


def _count_parts(node: yaml.Node, counted: dict[int, int], above: frozenset[int]) -> int:
    """How many parts a node has with all that its aliases stand for. Raises UnreadableText."""
    if id(node) in above:
        raise UnreadableText("an alias (*name) stands within what it names")
    if (known := counted.get(id(node))) is not None:
        return known
    inside = above | {id(node)}
    count = 1 + sum(_count_parts(one, counted, inside) for one in _parts_of(node))
    if count > _MAX_PARTS:
        raise UnreadableText(f"aliases (*name) make more than {_MAX_PARTS:,} parts of it")
    counted[id(node)] = count
    return count


def _parts_of(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()
