"""Changing a configuration file's text: one edit in, the new text out. Pure.

Guards: comments, order and blank lines stay as they are; what comes out says exactly what went in
with the edit applied, which is checked by reading it again.
"""

import hashlib
import json
import tomllib
from collections.abc import Sequence
from typing import Any

import msgspec

from swarm.mailbox.errors import SwarmError, UsageError
from swarm.mailbox.protocol.base import Value

from .key_path import format_key
from .merge import as_table, is_table, merge_tables
from .schema import Toml


class UneditableConfig(SwarmError):
    """The file is written in a way that cannot be changed without harm to it; it was not."""


class ConfigEdit(Value):
    """One change. `value` None takes the key out."""

    steps: tuple[str, ...]
    value: object = None
    merge: bool = False  # a table over a table: key by key; else it is replaced


def parse_value(text: str) -> object:
    """A value as on the command line: TOML, and what is no TOML is text."""
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def content_version(values: Toml) -> str:
    """A layer's fingerprint: of its table as JSON with sorted keys. Source: Codex."""
    text = json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
    )
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def apply_edit(values: Toml, edit: ConfigEdit) -> Toml:
    """A new table. A parent that is no table is replaced by one."""
    step, *rest = edit.steps
    changed = dict(values)
    below = values.get(step)
    if rest:
        if edit.value is None and not is_table(below):
            return changed
        inner = msgspec.structs.replace(edit, steps=tuple(rest))
        changed[step] = apply_edit(as_table(below), inner)
    elif edit.value is None:
        changed.pop(step, None)
    elif edit.merge and is_table(below) and is_table(edit.value):
        changed[step] = merge_tables(as_table(below), as_table(edit.value))
    else:
        changed[step] = edit.value
    return changed


def edit_text(text: str, edit: ConfigEdit) -> str:
    """The text with one change, all else byte for byte.

    Raises:
        UsageError: It is no TOML.
        CannotEdit: The change would not read back as meant.
    """
    try:
        before = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"not valid TOML: {error}") from error
    wanted = apply_edit(before, edit)
    if wanted == before:
        return text
    import tomlkit  # only an edit needs it, and it takes 20 ms
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        _apply(document, edit)
        after = tomlkit.dumps(document)
        same = tomllib.loads(after) == wanted
    except (TOMLKitError, tomllib.TOMLDecodeError, LookupError, TypeError, ValueError) as error:
        raise UneditableConfig(_refusal(edit.steps)) from error
    if not same:
        raise UneditableConfig(_refusal(edit.steps))
    return after


def _refusal(steps: Sequence[str]) -> str:
    return f"{format_key(steps)} stands in a place that cannot be edited safely; edit it by hand"


def _apply(document: Any, edit: ConfigEdit) -> None:
    import tomlkit

    here = document
    for step in edit.steps[:-1]:
        if not is_table(here.get(step)):
            if edit.value is None:
                return
            here[step] = tomlkit.table()
        here = here[step]
    last = edit.steps[-1]
    if edit.value is None:
        here.pop(last, None)
    elif edit.merge and is_table(edit.value) and is_table(here.get(last)):
        for key, value in as_table(edit.value).items():
            _apply(here[last], ConfigEdit(steps=(key,), value=value, merge=True))
    else:
        _put(here, last, edit.value)


def _put(table: Any, key: str, value: object) -> None:
    """A new key comes after the last one that is no table: what follows that, blank lines and
    comments, belongs to the next table.
    """
    import tomlkit
    from tomlkit.items import Table

    body: Any = table.value if isinstance(table, Table) else table
    if key in table or is_table(value) or not hasattr(body, "_insert_after"):
        table[key] = value
        return
    keys = [name for name, item in body.body if name is not None and not hasattr(item, "keys")]
    if keys:
        body._insert_after(keys[-1], key, tomlkit.item(value))
    else:
        table[key] = value
