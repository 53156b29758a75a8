"""What every line of `--json` has; those of the kernel and of parts are made from it.

A field is never left out because of its value (zero and null are valid values); only fields marked
UNSET are. New fields may be added; existing ones keep name, type and meaning (`docs/json.md`).
"""

from typing import dataclass_transform

import msgspec
from msgspec import UNSET, UnsetType


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class JsonPart(msgspec.Struct, frozen=True, kw_only=True):
    """An object inside a line."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class JsonLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all lines."""

    agent: str | UnsetType = UNSET  # the path; absent for most of the root's own lines
    ts: str = ""  # RFC 3339, UTC, milliseconds; set when the line is written
    seq: int = 0  # ascending in this stream; likewise
