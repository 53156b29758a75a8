"""Reads a YAML mapping of a file that somebody else wrote. Pure.

Hundreds of such files are read when a run starts. Nearly all hold nothing but lines of a name and a
text, so these are read without YAML, whose import alone takes 15 ms.
"""

import re
from typing import cast

from swarm.mailbox.base.bounded_formats import UnreadableText
from swarm.mailbox.base.errors import UsageError

_LINE = re.compile(
    r"([A-Za-z][A-Za-z0-9_-]*): +(?:\"([^\"\\]*)\"|'([^']*)'|([^\W\d_](?:.*[^ ])?)) *"
)
_NO_TEXTS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def yaml_table(text: str, *, first_line: int) -> dict[str, object]:
    """A YAML mapping with text keys, without aliases. Raises UsageError with the line."""
    plain = read_plain_table(text)
    return plain if plain is not None else _parse(text, first_line)


def read_plain_table(text: str) -> dict[str, object] | None:
    """The mapping, if each line is a name and a text that YAML reads as it stands; else None."""
    table: dict[str, object] = {}
    for line in text.split("\n"):
        found = _LINE.fullmatch(line)
        if found is None or not line.isprintable():
            return None
        name, double, single, bare = found.groups()
        if name in table or name.lower() in _NO_TEXTS:
            return None
        if bare is not None and not _is_plain(bare):
            return None
        table[name] = next(one for one in (double, single, bare) if one is not None)
    return table


def _is_plain(text: str) -> bool:
    is_marked = ": " in text or " #" in text or text.endswith(":")
    return not is_marked and text.lower() not in _NO_TEXTS


def _parse(text: str, first_line: int) -> dict[str, object]:
    import yaml

    from swarm.mailbox.base.bounded_yaml import parse_yaml_text

    try:
        value = parse_yaml_text(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + first_line if error.problem_mark else first_line
        raise UsageError(f"line {line}: invalid YAML: {error.problem}") from error
    except UnreadableText as error:
        line = (error.line or 0) + first_line
        raise UsageError(f"line {line}: invalid YAML: {error}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"line {first_line}: invalid YAML: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("invalid YAML: front matter is not a mapping of names to values")
    return {str(key): item for key, item in cast("dict[object, object]", value).items()}
