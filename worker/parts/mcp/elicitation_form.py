"""Reads what a server asks a person: a form's fields, or a URL. Cleaned and bounded. Pure.

Only the kinds of fields that the protocol names are taken, in any of its revisions. Whatever is
outside of the bounds is refused whole: a form that is shown in part would be answered in part.
"""

import math
from typing import cast
from urllib.parse import urlsplit

import mcp_types
from msgspec.structs import replace

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.contents.form_values import FormAnswerRefused, field_schema
from swarm.mailbox.protocol.elicitation import (
    ElicitationAction,
    FieldKind,
    FormChoice,
    FormField,
    TextFormat,
)

from .tool_schema import clean_text

MAX_FIELDS = 30
MAX_CHOICES = 100
MAX_URL = 2_000  # characters
_NAME, _TITLE, _ABOUT, _MESSAGE, _VALUE = 100, 200, 400, 2_000, 300  # characters
_FORMATS: dict[str, TextFormat] = {
    "email": "email",
    "uri": "uri",
    "date": "date",
    "date-time": "date-time",
}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_Table = dict[str, object]


class ElicitationRefused(SwarmError):
    """Nobody is asked; the text tells the server why."""


def read_elicitation(
    params: mcp_types.ElicitRequestParams, *, server: str, tool: str
) -> ElicitationAction:
    """The question as people may see it. Raises ElicitationRefused."""
    action = ElicitationAction(
        server=server,
        tool=clean_text(tool, limit=_TITLE),
        message=clean_text(params.message, limit=_MESSAGE),
    )
    if isinstance(params, mcp_types.ElicitRequestURLParams):
        host = check_url(params.url)
        return replace(action, url=params.url, host=host)
    return replace(action, fields=read_fields(cast("object", params.requested_schema)))


def check_url(url: str) -> str:
    """The host of a URL that a person may be asked to open, in ASCII. Raises ElicitationRefused."""
    if len(url) > MAX_URL:
        raise ElicitationRefused(f"the URL has more than {MAX_URL} characters")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ElicitationRefused(
            "the URL has signs that a URL must escape; an international host is written as xn--…"
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise ElicitationRefused(f"the URL cannot be read: {error}") from error
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise ElicitationRefused("the URL has a name or password before its host")
    if not host:
        raise ElicitationRefused("the URL has no host")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        raise ElicitationRefused("only https URLs can be asked for, and http on this machine")
    return host


def read_fields(schema: object) -> tuple[FormField, ...]:
    """The fields of a restricted schema. Raises ElicitationRefused."""
    table = _table(schema, "the requested schema")
    if table.get("type", "object") != "object":
        raise ElicitationRefused("the requested schema is not that of an object")
    properties = _table(table.get("properties", {}), "`properties`")
    if len(properties) > MAX_FIELDS:
        raise ElicitationRefused(
            f"the form has {len(properties)} fields; at most {MAX_FIELDS} can be asked for"
        )
    required = table.get("required")
    names = cast("list[object]", required) if isinstance(required, list) else []
    return tuple(
        _read_field(name, _table(rule, f"the field {name[:_NAME]!r}"), is_required=name in names)
        for name, rule in properties.items()
    )


def _read_field(name: str, rule: _Table, *, is_required: bool) -> FormField:
    if not name or "=" in name or clean_text(name, limit=_NAME) != name:
        raise ElicitationRefused(
            f"the field name {name[:_NAME]!r} is empty, too long, or has signs that cannot be shown"
        )
    field = FormField(
        name=name,
        kind=_kind(name, rule),
        title=_text(rule, "title", _TITLE),
        description=_text(rule, "description", _ABOUT),
        required=is_required,
    )
    match field.kind:
        case "text":
            field = _bounded(field, rule, "minLength", "maxLength")
            known = _FORMATS.get(str(rule.get("format")), "")
            field = replace(field, text_format=known)
        case "integer" | "number":
            field = _bounded(field, rule, "minimum", "maximum")
        case "choice":
            field = replace(field, choices=_choices(name, rule))
        case "choices":
            items = _table(rule.get("items"), f"`items` of {name!r}")
            field = _bounded(
                replace(field, choices=_choices(name, items)), rule, "minItems", "maxItems"
            )
        case "boolean":
            pass
    return _with_default(field, rule.get("default"))


def _kind(name: str, rule: _Table) -> FieldKind:
    match rule.get("type"):
        case "string":
            return "choice" if "enum" in rule or "oneOf" in rule else "text"
        case "integer":
            return "integer"
        case "number":
            return "number"
        case "boolean":
            return "boolean"
        case "array":
            return "choices"
        case other:
            raise ElicitationRefused(
                f"the field {name!r} has the type {str(other)[:_NAME]!r}; a form has texts, "
                "numbers, booleans and choices"
            )


def _choices(name: str, rule: _Table) -> tuple[FormChoice, ...]:
    listed = rule.get("oneOf", rule.get("anyOf", rule.get("enum")))
    entries = cast("list[object]", listed) if isinstance(listed, list) else []
    if not 1 <= len(entries) <= MAX_CHOICES:
        raise ElicitationRefused(f"the field {name!r} must have 1 to {MAX_CHOICES} choices")
    titles = rule.get("enumNames")
    named = cast("list[object]", titles) if isinstance(titles, list) else []
    found: list[FormChoice] = []
    for at, entry in enumerate(entries):
        title: object = named[at] if at < len(named) else ""
        value = entry
        if isinstance(entry, dict):
            pair = cast("_Table", entry)
            value, title = pair.get("const"), pair.get("title", "")
        if not isinstance(value, str) or clean_text(value, limit=_VALUE) != value or not value:
            raise ElicitationRefused(
                f"the field {name!r} has a choice that is not a short plain text"
            )
        found.append(FormChoice(value=value, title=clean_text(str(title), limit=_TITLE)))
    return tuple(found)


def _bounded(field: FormField, rule: _Table, least: str, most: str) -> FormField:
    return replace(field, least=_number(rule.get(least)), most=_number(rule.get(most)))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _with_default(field: FormField, value: object) -> FormField:
    """A default that does not fit its field is left out: a person then answers."""
    texts = _as_typed(field.kind, value)
    if texts is None:
        return field
    known = replace(field, default=texts)
    try:
        field_schema(known)
    except FormAnswerRefused:
        return field
    return known


def _as_typed(kind: FieldKind, value: object) -> tuple[str, ...] | None:
    match kind, value:
        case ("boolean", bool()):
            return ("yes" if value else "no",)
        case ("integer" | "number", int() | float()) if not isinstance(value, bool):
            return (repr(value),)
        case ("text" | "choice", str()) if clean_text(value, limit=_VALUE) == value.strip():
            return (value,)
        case ("choices", list()):
            texts = cast("list[object]", value)
            return tuple(str(one)[:_VALUE] for one in texts[:MAX_CHOICES]) or None
        case _:
            return None


def _text(rule: _Table, name: str, limit: int) -> str:
    value = rule.get(name)
    return clean_text(value, limit=limit) if isinstance(value, str) else ""


def _table(value: object, what: str) -> _Table:
    if not isinstance(value, dict):
        raise ElicitationRefused(f"{what} is not an object")
    return cast("_Table", value)
