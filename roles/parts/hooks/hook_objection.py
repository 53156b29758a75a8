"""Finds a clear no in what a hook printed, in whatever form it is written. Pure.

Both products, and others that people copy hooks from, write a no in their own words: `deny`,
`block`, `permission: "deny"`, `ok: false`. A gate takes each of them. A yes is never looked for
here: it counts only in the exact form (`hook_output`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeGuard

from swarm.mailbox.protocol.values.base import Value

Json = Mapping[str, object]
Objection = Literal["deny", "ask", "stop"]

_IN_DOUBT = frozenset(
    {"deny", "denied", "block", "blocked", "reject", "rejected", "forbid", "forbidden"}
)
_NO = _IN_DOUBT | {
    "refuse",
    "refused",
    "disallow",
    "disallowed",
    "decline",
    "declined",
    "abort",
    "cancel",
    "no",
    "false",
}
_ASK = frozenset({"ask", "confirm", "prompt"})
_DECISIONS = frozenset(
    {"decision", "permissiondecision", "permission", "behavior", "action", "verdict"}
)
_YES_FLAGS = frozenset({"ok", "allow", "allowed", "approve", "approved", "permitted"})
_NO_FLAGS = _IN_DOUBT - {"forbid", "forbidden"}
_REASONS = ("permissiondecisionreason", "reason", "stopreason", "message", "error")
_INNER = frozenset({"hookspecificoutput", "decision"})
_MOST_LINES = 200  # that begin like an object, each read by itself
# In text that cannot be read as JSON: a value with a quotation mark in it, a line that was cut.
_WRITTEN_NO = re.compile(
    r'"(?:decision|permissionDecision|permission|behavior)"\s{0,9}:\s{0,9}'
    r'"(?:deny|denied|block|blocked|reject|rejected)"',
    re.IGNORECASE,
)
_WRITTEN_STOP = re.compile(r'"continue"\s{0,9}:\s{0,9}"?false\b', re.IGNORECASE)
_FIRST_WORD = re.compile(r"\W{0,20}(?:den(?:y|ied)|block(?:ed)?|reject(?:ed)?|forbidden)\b", re.I)


class FoundObjection(Value):
    """What a hook objects with, and why; the strongest of what it said."""

    kind: Objection
    reason: str = ""


def read_json(text: str) -> object:
    """The one JSON value of a text, perhaps behind a byte order mark. Raises ValueError.

    A key that is there twice keeps the value that says no.
    """
    try:
        value: object = json.loads(_bare(text), strict=False, object_pairs_hook=_strictest)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def is_json_like(text: str) -> bool:
    """True for text that is meant to be JSON."""
    return _bare(text)[:1] in ("{", "[") and bool(_bare(text))


def find_objection(text: str) -> FoundObjection | None:
    """The strongest objection in what was printed: as one object, line by line, or unreadable."""
    try:
        value = read_json(text)
    except ValueError:
        return _strongest(_in_lines(text)) or _in_unreadable(text)
    return _strongest(_in_values(value))


def objects_to(value: Json) -> FoundObjection | None:
    """The objection of one object."""
    kinds: set[Objection] = set()
    reasons: dict[str, str] = {}
    for level in _levels(value):
        for key, given in level.items():
            name = _name(key)
            if (kind := _kind(name, given)) is not None:
                kinds.add(kind)
            if name in _REASONS and isinstance(given, str | int | float) and str(given).strip():
                reasons.setdefault(name, str(given).strip())
    reason = next((reasons[name] for name in _REASONS if name in reasons), "")
    return _strongest(FoundObjection(kind=kind, reason=reason) for kind in kinds)


def begins_with_no(text: str) -> bool:
    """True for plain text whose first word is a no: not an answer in any form, and not a yes."""
    return _FIRST_WORD.match(text) is not None


def _kind(name: str, given: object) -> Objection | None:
    word = given.strip().lower() if isinstance(given, str) else given
    if name == "continue":
        return "stop" if word is False or (isinstance(word, str) and word in _NO) else None
    if name in _DECISIONS and isinstance(word, str):
        return "deny" if word in _NO else "ask" if word in _ASK else None
    if name in _DECISIONS or name in _YES_FLAGS:
        return "deny" if word is False or word == "false" else None
    if name in _NO_FLAGS:
        return "deny" if word is True or word == "true" else None
    return "ask" if isinstance(word, str) and word in _IN_DOUBT else None


def _levels(value: Json, depth: int = 3) -> Iterator[Json]:
    """The object, and those in which a decision may stand."""
    yield value
    for key, given in value.items():
        if depth and _name(key) in _INNER and _is_object(given):
            yield from _levels(given, depth - 1)


def _in_values(value: object) -> Iterator[FoundObjection]:
    values: list[object] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    for one in values[:_MOST_LINES]:
        if _is_object(one) and (found := objects_to(one)) is not None:
            yield found


def _in_lines(text: str) -> Iterator[FoundObjection]:
    """Objects on lines of their own, and one that goes on to the end behind other lines."""
    lines = _bare(text).splitlines()
    starts = [number for number, line in enumerate(lines) if line.lstrip().startswith("{")]
    for number in starts[:_MOST_LINES]:
        try:
            yield from _in_values(read_json(lines[number]))
        except ValueError:
            continue
    for number in starts[:1]:
        try:
            yield from _in_values(read_json("\n".join(lines[number:]).rstrip().rstrip("`")))
        except ValueError:
            continue


def _in_unreadable(text: str) -> FoundObjection | None:
    if _WRITTEN_NO.search(text):
        return FoundObjection(kind="deny", reason=_bare(text))
    if _WRITTEN_STOP.search(text):
        return FoundObjection(kind="stop", reason=_bare(text))
    return None


def _strongest(found: Iterator[FoundObjection]) -> FoundObjection | None:
    order: tuple[Objection, ...] = ("stop", "deny", "ask")
    return min(found, key=lambda one: order.index(one.kind), default=None)


def _strictest(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, given in pairs:
        if key not in values or _kind(_name(key), values[key]) is None:
            values[key] = given
    return values


def _name(key: str) -> str:
    return key.replace("_", "").replace("-", "").strip().lower()


def _bare(text: str) -> str:
    return text.lstrip("\ufeff\0 \t\r\n").rstrip()


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)
