"""The result: checked against a schema, written to a file in one step."""

import os
from pathlib import Path
from typing import Any

import msgspec

from swarm.mailbox.errors import SwarmError


def schema_fault(text: str, schema: dict[str, Any]) -> str | None:
    """Why `text` is not JSON that fits `schema`, with the place of the first fault; else None."""
    from jsonschema_rs import ValidationError, validator_for  # 6 MB, seldom needed

    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError) as error:
        return f"the answer is not JSON: {error}"
    try:
        validator_for(schema).validate(value)
    except ValidationError as error:
        where = "/".join(str(step) for step in error.instance_path) or "the top"
        return f"the answer does not fit the output schema at {where}: {error.message}"
    except ValueError as error:
        return f"the output schema itself is not usable: {error}"
    return None


def write_result(path: Path, text: str) -> None:
    """Write the final answer so that a reader sees all of it or the file before.

    Raises SwarmError naming the file.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise SwarmError(f"cannot write the result to {path}: {error.strerror}") from error
