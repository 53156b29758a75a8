"""The tables of `memory_rules.toml`, read once."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_suffix(".toml")


class MemoryRules(NamedTuple):
    purposes: tuple[tuple[re.Pattern[str], str], ...]  # of a command, by its first words
    errors: tuple[tuple[re.Pattern[str], str], ...]  # in what a command wrote
    order: re.Pattern[str]  # words that make an order of a fact


@cache
def load_memory_rules() -> MemoryRules:
    table = tomllib.loads(_FILE.read_text("utf-8"))
    return MemoryRules(
        purposes=tuple(
            (re.compile(rf"(?:{'|'.join(one['commands'])})(?= |$)"), one["text"])
            for one in table["purposes"]
        ),
        errors=tuple(
            (re.compile(one["pattern"], re.MULTILINE), one["text"]) for one in table["errors"]
        ),
        order=re.compile(rf"\b(?:{'|'.join(table['orders']['words'])})\b", re.IGNORECASE),
    )
