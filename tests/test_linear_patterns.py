"""No regular expression of the product takes longer than what it reads is long.

Python's engine backtracks: `[a-z]*@` searched in a long word costs the square of its length. Each
pattern of a module is tried, in the way its module uses it, on texts made of its own parts, at a
length and at four times that length. A pattern that is found here is bounded (`{0,64}`), given an
atomic part (`*+`, `(?>…)`), or anchored so that one run is read once.
"""

import ast
import functools
import importlib
import random
import re
import re._parser as sre
from re import _constants as codes

import pytest

from support.linear_time import TRIES, find_growth
from support.paths import ROOT

PACKAGES = ("mailbox", "roles", "worker", "supervisor")
SIZE = 3_000
SIGNS = (
    " ",
    "\n",
    "\t",
    "a",
    "1",
    "-",
    ".",
    "/",
    '"',
    "(",
    "[",
    "{",
    "<",
    "`",
    "#",
    "@",
    "=",
    ":",
    "*",
    "_",
)
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)
WAYS = {"sub": "finditer", "subn": "finditer", "split": "finditer", "findall": "finditer"}


def walk(tree):
    """This part of a parsed pattern and all below."""
    yield tree
    for _, details in tree:
        for one in details if isinstance(details, tuple) else (details,):
            for part in one if isinstance(one, list) else (one,):
                if isinstance(part, sre.SubPattern):
                    yield from walk(part)


def is_unbounded(pattern):
    text = pattern.pattern
    tree = sre.parse(text if isinstance(text, str) else text.decode("latin-1"))
    return any(
        operation in REPEATS and details[1] == codes.MAXREPEAT
        for part in walk(tree)
        for operation, details in part
    )


def found_patterns():
    """(module, name) → the pattern, and how its module calls it."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text("utf-8")
            if "import re\n" not in text or path.name == "__main__.py":
                continue
            module = "swarm." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
            uses = {}
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    uses.setdefault(node.value.id, set()).add(WAYS.get(node.attr, node.attr))
            for name, value in vars(importlib.import_module(module)).items():
                if isinstance(value, re.Pattern) and is_unbounded(value):
                    ways = uses.get(name, set()) & {"match", "search", "fullmatch", "finditer"}
                    found[module, name] = (value, ways or {"search"})
    return found


class Sampler:
    """Texts that parts of a pattern match."""

    def __init__(self, seed):
        self._lots = random.Random(seed)

    def text(self, tree):
        return "".join(self._one(operation, details) for operation, details in tree)

    def _one(self, operation, details):
        match operation:
            case codes.LITERAL:
                return chr(details)
            case codes.NOT_LITERAL | codes.ANY:
                return "a" if details != ord("a") else "b"
            case codes.IN:
                return self._pick(details)
            case codes.SUBPATTERN:
                return self.text(details[-1])
            case codes.BRANCH:
                return self.text(self._lots.choice(details[1]))
            case codes.ATOMIC_GROUP:
                return self.text(details)
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                least, most, inner = details
                count = min(least or self._lots.randint(0, 1), most, 30)
                return "".join(self.text(inner) for _ in range(count))
            case _:
                return ""

    def _pick(self, details):
        return self._lots.choice(_fitting("".join(map(_set_text, details))))


@functools.cache
def _fitting(kind):
    inside = re.compile(f"[{kind}]")
    return [sign for sign in map(chr, range(9, 127)) if inside.match(sign)] or ["~"]


def _set_text(one):
    kind, value = one
    match kind:
        case codes.NEGATE:
            return "^"
        case codes.LITERAL:
            return re.escape(chr(value))
        case codes.RANGE:
            return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        case _:
            name = str(value).rpartition("_")[2].lower()
            letter = {"digit": "d", "space": "s", "word": "w"}[name]
            return "\\" + (letter.upper() if "NOT" in str(value) else letter)


def attacks(pattern, name):
    """Prefixes and units of hostile texts for this pattern."""
    text = pattern.pattern
    flags = pattern.flags & re.VERBOSE
    tree = sre.parse(text if isinstance(text, str) else text.decode("latin-1"), flags)
    sampler, parts = Sampler(name), list(walk(tree))
    units = {sampler.text(part) for part in parts for _ in range(2)} | set(SIGNS)
    whole = sampler.text(tree)
    for unit in sorted(units - {""})[:60]:
        yield "", unit
        yield whole, unit


def find_slow(pattern, ways, name, *, size=SIZE, tries=TRIES):
    """The first way and text that cost more than their length; None if there is none."""
    is_bytes = isinstance(pattern.pattern, bytes)
    for way in sorted(ways):
        act = getattr(pattern, way)

        def read(text, act=act):
            found = act(text)
            for _ in found if hasattr(found, "__next__") else ():
                pass

        for before, unit in attacks(pattern, name):

            def make(size, before=before, unit=unit):
                text = before + unit * (size // len(unit)) + "\x00!"
                return text.encode("latin-1", "replace") if is_bytes else text

            if slow := find_growth(read, make, size, tries=tries):
                return f"{way} {before!r} {unit!r}: {slow}"
    return None


def test_every_pattern_takes_linear_time_for_text_of_its_own_parts():
    """One test for all: to name them would have every process of the tests import the product."""
    found = found_patterns()
    slow = {key: find_slow(*found[key], ".".join(key)) for key in sorted(found)}
    assert {key: why for key, why in slow.items() if why} == {}
    assert len(found) > 100  # or they are no longer found


@pytest.mark.parametrize(
    ("pattern", "way"),
    [
        (r"mcp__([\w-]+?)(?:__([\w*-]+))?\Z", "match"),
        (r"\s*([^\n]*?)<<\w", "match"),
        (r"[\w./-]*[\w-]\.\w+", "finditer"),
        (r"(?m)^\W*memories:", "search"),
    ],
)
def test_patterns_that_are_known_to_be_slow_are_found(pattern, way):
    assert find_slow(re.compile(pattern), {way}, "known", size=1_000, tries=2) is not None
