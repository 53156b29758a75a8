"""Reads and checks JSON schemas that a person supplies, before anything runs."""

from pathlib import Path
from typing import Any

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.safe_open import read_user_file

_MAX_SCHEMA_BYTES = 1 << 20


def read_schema(path: Path, key: str) -> dict[str, Any]:
    """Read a JSON schema from a file. Raises UsageError naming it."""
    try:
        data = read_user_file(path, most_bytes=_MAX_SCHEMA_BYTES)
        schema = msgspec.json.decode(data, type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"{key}: {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{key}: {path} is not a JSON object: {error}") from error
    return check_schema(schema, key)


def check_schema(schema: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the schema if answers can be validated with it. Raises UsageError."""
    from jsonschema_rs import validator_for  # 6 MB, seldom needed

    try:
        validator_for(schema)
    except Exception as error:  # its error classes have no useful common base
        raise UsageError(f"{key}: not a usable JSON schema: {error}") from error
    return schema
