"""What words beyond those of a rule make a program do, by `program_effects.toml`.

A rule that allows `sort` means sorting, not `sort -o FILE`. For a program that the table does not
know, words count that mean the same nearly everywhere (`--output`, `--exec`).
"""

import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeGuard, cast, get_args

from swarm.mailbox.protocol.values.base import Value

Words = tuple[str, ...]
Further = Literal["read", "words", "exact", "one", "program", "verb", "mode", "run"]
_TABLE = Path(__file__).with_suffix(".toml")
_FURTHER: dict[str, Further] = {one: one for one in get_args(Further)}


class ProgramEffects(Value):
    """One entry of the table."""

    acts: Words = ()
    values: str = ""  # letters of short options that take a value
    fine: Words = ()
    more: Further = "words"
    script: bool = False
    code: Words | None = None  # verbs with which it runs the project's code; () = always
    verbs: Mapping[str, "ProgramEffects"] = {}


UNKNOWN = ProgramEffects()


def find_more(prefix: Words, words: Words) -> str:
    """What the words beyond the prefix may do, as a clause; "" if the prefix says it all."""
    program = effects_of(words[0])
    name, further = _name(words[0]), words[len(prefix) :]
    if not further:
        return ""
    entry, at = _entry(program, words)
    if program.more == "mode" and len(prefix) == 1:
        return f"`{name} {further[0]}` is more than `{name}`"
    if program.more == "verb" and at >= len(prefix) and (entry is program or entry.more != "read"):
        verb = words[at] if at < len(words) else further[0]
        return f"`{name} {verb}` is more than `{' '.join(prefix)}`"
    if entry.more == "run" or (program.script and not _operands(prefix)):
        return f"`{further[0]}` is, or belongs to, a program that {name} runs"
    acting = next((word for word in further if _acts(word, entry)), "")
    if acting:
        return f"`{acting}` can make {name} write a file or run a program"
    return _too_many(entry, name, prefix, words)


def leaves_open(prefix: Words) -> bool:
    """True if the table says which words may follow, so that a saved rule need not be exact."""
    entry, _ = _entry(effects_of(prefix[0]), prefix)
    return entry.more == "read"


def runs_project_code(words: Words) -> bool:
    """True if the command runs code of the project in whose folder it is started."""
    entry = effects_of(words[0])
    if entry.script:
        return "-m" in words[1:]
    verbs = entry.code or ()
    first = (_operands(words) or ("",))[0]
    later = words[1:] if words[1:2] and words[1].startswith("-") else ()
    return entry.code == () or first in verbs or any(word in verbs for word in later)


def named_files(words: Words) -> Iterator[str]:
    """Words that may name a file of code: what an acting option of the command is followed by."""
    entry, _ = _entry(effects_of(words[0]), words)
    for at, word in enumerate(words[1:], 1):
        if _acts(word, entry):
            yield from words[at + 1 : at + 2]
            yield word.partition("=")[2] if "=" in word else word[2:]


def effects_of(program: str) -> ProgramEffects:
    """The entry of a program, by its last name and without a version (`python3.11`)."""
    name, table = _name(program), _table()
    found = table.get(name) or table.get(name.rstrip("0123456789.-"))
    return found or UNKNOWN


def _entry(program: ProgramEffects, words: Words) -> tuple[ProgramEffects, int]:
    """The entry of the verb if it has one, and where the verb stands."""
    at = next((at for at, word in enumerate(words) if at and not word.startswith("-")), len(words))
    verb = words[at] if at < len(words) else ""
    return (program.verbs.get(verb, program) if at == 1 else program), at


def _too_many(entry: ProgramEffects, name: str, prefix: Words, words: Words) -> str:
    allowed, given = len(_operands(prefix)), len(_operands(words))
    match entry.more:
        case "one" if given > 1:
            return f"{name} writes the second file that it is given"
        case "program" if not allowed and given:
            return f"`{_operands(words)[0]}` is a program text, which can write and run anything"
        case "exact" if allowed and given > allowed:
            return f"`{_operands(words)[-1]}` is not in the rule"
        case _:
            return ""


def _operands(words: Words) -> Words:
    return tuple(word for word in words[1:] if not word.startswith("-") or word == "-")


def _acts(word: str, entry: ProgramEffects) -> bool:
    if any(_is_item(word, item) for item in entry.acts):
        return True
    if word.startswith("-") and not word.startswith("--") and _clusters(word, entry):
        return True
    general = (item for item in _general() if item not in entry.fine)
    if word.startswith("--"):
        return word.partition("=")[0] in general
    return word[:1] == "-" and word[:2] in general


def _is_item(word: str, item: str) -> bool:
    if item.startswith("--"):  # any abbreviation
        name = word.partition("=")[0]
        return len(name) > 2 and item.startswith(name) and name.startswith("--")
    if item.startswith("-"):
        return len(item) > 2 and word.partition("=")[0] == item
    if "*" in item:
        return fnmatchcase(word, item)
    is_start = len(item) == 1 or item[-1] in "=:"
    return word.startswith(item) if is_start else word == item


def _clusters(word: str, entry: ProgramEffects) -> bool:
    """An acting letter among short options; what follows one with a value is its value."""
    for letter in word[1:]:
        if f"-{letter}" in entry.acts:
            return True
        if letter in entry.values:
            return False
    return False


def _name(program: str) -> str:
    return program.rpartition("/")[2]


@lru_cache(maxsize=1)
def _general() -> Words:
    return tuple(str(_section(_read(), "any")["acts"]).split())


@lru_cache(maxsize=1)
def _table() -> Mapping[str, ProgramEffects]:
    read = _read()
    table = {name: _effects(entry) for name, entry in _section(read, "programs").items()}
    kinds = {
        "run": ProgramEffects(more="run"),
        "code": ProgramEffects(code=()),
        "exact": ProgramEffects(more="exact"),
        "mode": ProgramEffects(more="mode"),
        "script": ProgramEffects(script=True),
    }
    for kind, names in _section(read, "kinds").items():
        table |= dict.fromkeys(str(names).split(), kinds[kind])
    return table


@lru_cache(maxsize=1)
def _read() -> dict[str, object]:
    return tomllib.loads(_TABLE.read_text("utf-8"))


def _effects(given: object) -> ProgramEffects:
    entry = given if _is_table(given) else {}
    code = entry.get("code")
    return ProgramEffects(
        acts=tuple(str(entry.get("acts", "")).split()),
        values=str(entry.get("values", "")),
        fine=tuple(str(entry.get("fine", "")).split()),
        more=_FURTHER.get(str(entry.get("more")), "words"),
        code=None if code is None else tuple(str(code).split()),
        verbs={verb: _effects(one) for verb, one in _section(entry, "verbs").items()},
    )


def _section(table: dict[str, object], name: str) -> dict[str, object]:
    return cast("dict[str, object]", table.get(name, {}))


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)
