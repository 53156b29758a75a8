"""A person's typed answers as the values of a server's form: parsed, completed, checked. Pure.

The schema that a value is checked against is made from the fields as they were shown, so nothing
of the server's own schema is evaluated.
"""

import re
from collections.abc import Mapping
from typing import cast

from ..base.errors import SwarmError
from ..protocol.elicitation import FormField

_TRUE, _FALSE = frozenset({"true", "yes", "y", "1"}), frozenset({"false", "no", "n", "0"})
_SECRET = re.compile(
    r"pass(word|wd|phrase|code)|secret|token|api[\s_-]*key|credential|private[\s_-]*key"
    r"|\b(pin|otp|cvv|cvc|2fa|mfa)\b|card[\s_-]*number|social[\s_-]*security|\bssn\b",
    re.IGNORECASE,
)
_SHOWN_CHARS = 200


class FormAnswerRefused(SwarmError):
    """An answer that the form does not allow; the text says which field, and what it wants."""


def form_content(
    fields: tuple[FormField, ...], answers: Mapping[str, tuple[str, ...]]
) -> dict[str, object]:
    """The value of each field; one without an answer has its default, or is left out.

    Raises FormAnswerRefused for a missing or unknown field, and a value that does not fit.
    """
    names = ", ".join(field.name for field in fields) or "none"
    if strange := sorted(set(answers) - {field.name for field in fields}):
        raise FormAnswerRefused(f"the form has no field {strange[0]!r}; its fields: {names}")
    content: dict[str, object] = {}
    for field in fields:
        given = answers.get(field.name) or field.default
        if given is None:
            if field.required:
                raise FormAnswerRefused(f"{field.name} has no answer, and the server requires it")
            continue
        content[field.name] = _checked(field, _parsed(field, given))
    return content


def form_schema(fields: tuple[FormField, ...]) -> dict[str, object]:
    """The JSON schema of the form, of the kinds that the protocol allows."""
    return {
        "type": "object",
        "properties": {field.name: field_schema(field) for field in fields},
        "required": [field.name for field in fields if field.required],
    }


def field_schema(field: FormField) -> dict[str, object]:
    """The JSON schema of one field."""
    about: dict[str, object] = {}
    if field.title:
        about["title"] = field.title
    if field.description:
        about["description"] = field.description
    if field.default is not None:
        about["default"] = _parsed(field, field.default)
    match field.kind:
        case "text":
            kind: dict[str, object] = {"type": "string"}
            kind |= {"format": field.text_format} if field.text_format else {}
            return about | kind | _bounds(field, "minLength", "maxLength", whole=True)
        case "integer" | "number":
            bounds = _bounds(field, "minimum", "maximum", whole=field.kind == "integer")
            return about | {"type": field.kind} | bounds
        case "boolean":
            return about | {"type": "boolean"}
        case "choice":
            return about | {"type": "string", "oneOf": _options(field)}
        case "choices":
            items: dict[str, object] = {"anyOf": _options(field)}
            return about | {"type": "array", "items": items} | _bounds(
                field, "minItems", "maxItems", whole=True
            )  # fmt: skip


def as_typed(content: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Values of a form as a person would have typed them; what no field can hold is left out."""
    typed: dict[str, tuple[str, ...]] = {}
    for name, value in content.items():
        match value:
            case bool():
                typed[name] = ("yes" if value else "no",)
            case int() | float() | str():
                typed[name] = (str(value),)
            case list():
                typed[name] = tuple(str(one) for one in cast("list[object]", value))
            case _:
                pass
    return typed


def looks_secret(field: FormField) -> bool:
    """True if the field seems to ask for a secret, which the protocol forbids in a form."""
    return bool(_SECRET.search(f"{field.name} {field.title} {field.description}".replace("_", " ")))


def _options(field: FormField) -> list[dict[str, str]]:
    return [{"const": one.value, "title": one.title or one.value} for one in field.choices]


def _bounds(field: FormField, least: str, most: str, *, whole: bool) -> dict[str, object]:
    """JSON has one kind of number, but an upper bound of a count is a whole one."""
    bounds = ((least, field.least), (most, field.most))
    return {
        name: int(value) if whole and float(value).is_integer() else value
        for name, value in bounds
        if value is not None
    }


def _parsed(field: FormField, given: tuple[str, ...]) -> object:
    """The value that the texts mean. Raises FormAnswerRefused."""
    if field.kind == "choices":
        return [_choice(field, one) for one in _several(field, given)]
    if len(given) != 1:
        raise FormAnswerRefused(f"{field.name} takes one answer, not {len(given)}")
    text = given[0]
    match field.kind:
        case "text":
            return text
        case "choice":
            return _choice(field, text)
        case "boolean":
            word = text.strip().lower()
            if word not in _TRUE | _FALSE:
                raise FormAnswerRefused(f"{field.name}: answer yes or no, not {_shown(text)}")
            return word in _TRUE
        case "integer" | "number":
            return _number(field, text)


def _number(field: FormField, text: str) -> int | float:
    try:
        value: int | float = int(text) if _is_whole(text) else float(text)
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), float("-inf")):
        raise FormAnswerRefused(f"{field.name}: {_shown(text)} is not a number")
    if field.kind == "integer" and isinstance(value, float):
        if not value.is_integer():
            raise FormAnswerRefused(f"{field.name}: {_shown(text)} is not a whole number")
        return int(value)
    return value


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text) is not None


def _several(field: FormField, given: tuple[str, ...]) -> list[str]:
    """The chosen ones; a text that is no choice itself names several, with commas between."""
    known = {text for one in field.choices for text in (one.value, one.title)}
    found: list[str] = []
    for text in given:
        parts = [text] if text in known else text.split(",")
        found += [part.strip() for part in parts if part.strip()]
    return list(dict.fromkeys(found))


def _choice(field: FormField, text: str) -> str:
    """A choice by its value, its title, or its number in the list."""
    for one in field.choices:
        if text == one.value:
            return one.value
    for one in field.choices:
        if one.title and text.casefold() == one.title.casefold():
            return one.value
    if re.fullmatch(r"[0-9]{1,3}", text) and 1 <= int(text) <= len(field.choices):
        return field.choices[int(text) - 1].value
    offered = ", ".join(one.value for one in field.choices[:12])
    raise FormAnswerRefused(f"{field.name}: {_shown(text)} is not a choice; choose of: {offered}")


def _checked(field: FormField, value: object) -> object:
    from jsonschema_rs import ValidationError, validator_for  # 6 MB, for answered forms only

    schema = {name: rule for name, rule in field_schema(field).items() if name != "default"}
    try:
        validator_for(schema, validate_formats=True).validate(value)
    except ValidationError as error:
        raise FormAnswerRefused(f"{field.name}: {error.message:.{_SHOWN_CHARS}}") from error
    return value


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARS])
