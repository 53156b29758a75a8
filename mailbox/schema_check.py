"""Checks text against a JSON schema, for agents and for their callers. No I/O."""

import msgspec


def find_schema_violation(text: str, schema: dict[str, object]) -> str | None:
    """Why `text` is not JSON that fits `schema`, with the place of the first error; else None."""
    from jsonschema_rs import ValidationError, validator_for  # 6 MB, rarely needed

    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"the answer is not JSON: {error}"
    try:
        validator_for(schema).validate(value)
    except ValidationError as error:
        where = "/".join(str(step) for step in error.instance_path) or "the top"
        return f"the answer does not fit the output schema at {where}: {error.message}"
    except ValueError as error:
        return f"the output schema itself is not usable: {error}"
    return None
