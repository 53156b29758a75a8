"""Edits the text of a configuration file: one edit in, the new text out. Pure.

Comments, order and blank lines stay. The new text is parsed again, to check that it holds exactly
the old values with the edit applied.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from swarm.mailbox.base.bounded_formats import parse_toml_text
from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.protocol.values.base import Value

from ..dotted_key import format_key
from ..schema import Toml
from .merge import as_table, is_table, merge_tables

_MAX_EDITED_CHARS = 256 << 10  # tomlkit takes a second for so many

_TomlkitItem: TypeAlias = Any  # type: ignore[explicit-any]  # its containers share no type


class UneditableConfig(SwarmError):
    """The file's form does not allow a safe edit; it is unchanged."""


class ConfigEdit(Value):
    """One change. `value` None removes the key."""

    steps: tuple[str, ...]
    value: object = None
    merge: bool = False  # merge two tables key by key; else replace


def parse_value(text: str) -> object:
    """A value from the command line: TOML; any other text is a string."""
    try:
        return parse_toml_text(f"value = {text.strip()}")["value"]
    except ValueError:  # not TOML, or an impossible number or date
        return text


def content_version(values: Toml) -> str:
    """The fingerprint of a layer: a hash of its table as JSON with sorted keys. Source: Codex."""
    text = json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
    )
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def apply_edit(values: Toml, edit: ConfigEdit) -> Toml:
    """A new table with the edit applied. A parent that is no table is replaced by one."""
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
    """The text with one change; all else stays byte for byte.

    Raises:
        UsageError: The text is not TOML.
        UneditableConfig: The change would not read back as intended.
    """
    try:
        before = parse_toml_text(text)
    except ValueError as error:
        raise UsageError(f"not valid TOML: {error}") from error
    wanted = apply_edit(before, edit)
    if wanted == before:
        return text
    if len(text) > _MAX_EDITED_CHARS:
        raise UneditableConfig(
            f"the file has more than {_MAX_EDITED_CHARS >> 10} KiB; edit it by hand"
        )
    import tomlkit  # only edits need it, and importing it takes 20 ms
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        _apply(document, edit)
        after = tomlkit.dumps(document)
        same = parse_toml_text(after) in (wanted, _without_empty(wanted, edit.steps[:-1]))
    except (TOMLKitError, LookupError, TypeError, ValueError) as error:
        raise UneditableConfig(_refusal(edit.steps)) from error
    if not same:
        raise UneditableConfig(_refusal(edit.steps))
    return after


def _without_empty(values: Toml, steps: Sequence[str]) -> Toml:
    """The table without those on the way to `steps` that are empty.

    A table that only the names of its tables imply is gone with the last of these.
    """
    if not steps or not is_table(values.get(steps[0])):
        return values
    below = _without_empty(as_table(values[steps[0]]), steps[1:])
    return {
        **{key: value for key, value in values.items() if key != steps[0]},
        **({steps[0]: below} if below else {}),
    }


def _refusal(steps: Sequence[str]) -> str:
    return f"{format_key(steps)} stands in a place that cannot be edited safely; edit it by hand"


def _apply(document: _TomlkitItem, edit: ConfigEdit) -> None:
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


def _put(table: _TomlkitItem, key: str, value: object) -> None:
    """Insert a new key after the last one that is no table, because the blank lines and comments
    after that key belong to the next table.
    """
    import tomlkit
    from tomlkit.items import Table

    body: _TomlkitItem = table.value if isinstance(table, Table) else table
    if key in table or is_table(value) or not hasattr(body, "_insert_after"):
        table[key] = value
        return
    keys = [name for name, item in body.body if name is not None and not hasattr(item, "keys")]
    if keys:
        body._insert_after(keys[-1], key, tomlkit.item(value))
    else:
        table[key] = value
