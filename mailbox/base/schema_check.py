"""Checks values against JSON schemas, which may come from models and servers. No I/O.

A schema never makes this process read a file or ask a server: `$ref` reaches only what lies in the
schema itself.
"""

from typing import Protocol

import msgspec

from .schema_cost import SchemaCost, UncountableSchema

# Comparisons of a schema with references: so many at once, and so many times as without repeats.
_MOST_COMPARISONS, _MOST_REPEATS = 20_000, 8


class SchemaUnusable(ValueError):
    """The text is not a schema, or refers to something outside of itself."""


class SchemaValidator(Protocol):
    """Checks one value after the other."""

    def __call__(self, value: object, /) -> None:
        """Raises jsonschema_rs.ValidationError."""
        ...


def open_validator(schema: dict[str, object], *, linear: bool = False) -> SchemaValidator:
    """A check against this schema. Raises SchemaUnusable, also when a value would cost too much.

    Args:
        linear: Its patterns match in linear time; one that looks ahead or back is unusable, and so
            is one whose references cannot be counted.
    """
    from jsonschema_rs import FancyRegexOptions, RegexOptions, validator_for  # 6 MB, rarely needed

    patterns = RegexOptions() if linear else FancyRegexOptions()

    try:
        check = validator_for(schema, offline=True, pattern_options=patterns).validate
    except Exception as error:  # its error classes have no useful common base
        raise SchemaUnusable(str(error).split("\n", 1)[0]) from error
    try:
        cost = SchemaCost(schema)
    except UncountableSchema as error:
        if linear:
            raise SchemaUnusable(str(error)) from error
        return check
    return _BoundedCheck(cost, check, is_strict=linear) if cost.has_references else check


class _BoundedCheck:
    """Compares nothing with a value that the schema's references would make endless."""

    def __init__(self, cost: SchemaCost, check: SchemaValidator, *, is_strict: bool) -> None:
        self._cost, self._check, self._is_strict = cost, check, is_strict

    def __call__(self, value: object, /) -> None:
        try:
            wanted = self._cost.count(value)
        except RecursionError as error:
            raise SchemaUnusable("its references lead too deep with this value") from error
        except UncountableSchema as error:
            if self._is_strict:
                raise SchemaUnusable(str(error)) from error
            wanted = 0
        if wanted > _MOST_COMPARISONS + _MOST_REPEATS * self._cost.steps:
            raise SchemaUnusable(f"its references ask for {wanted:,} comparisons with this value")
        self._check(value)


def find_violation(value: object, check: SchemaValidator) -> str | None:
    """The place and the text of the first error; None: the value fits."""
    from jsonschema_rs import ValidationError

    try:
        check(value)
    except ValidationError as error:
        where = "/".join(str(step) for step in error.instance_path) or "the top"
        return f"at {where}: {error.message}"
    except (ValueError, RecursionError) as error:
        return f"at the top: {error}"
    return None


def find_schema_violation(text: str, schema: dict[str, object]) -> str | None:
    """Why `text` is not JSON that fits `schema`, with the place of the first error; else None."""
    try:
        value: object = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"the answer is not JSON: {error}"
    try:
        violation = find_violation(value, open_validator(schema))
    except SchemaUnusable as error:
        return f"the output schema itself is not usable: {error}"
    return None if violation is None else f"the answer does not fit the output schema {violation}"
