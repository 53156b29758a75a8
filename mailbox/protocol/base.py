"""What all messages share: frozen, keyword-only, tagged by `type`, defaults left out.

New fields have defaults and old ones keep their meaning; `PROTOCOL_VERSION` grows only when that
cannot be kept. Unknown fields are ignored, so a newer peer may add some.
"""

import re
from typing import dataclass_transform

import msgspec

PROTOCOL_VERSION = 1
SCHEMA_VERSION = 1  # of the journal's lines and of every `--json` line

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


def snake_case(name: str) -> str:
    """`TurnStarted` → `turn_started`: the wire name of a struct."""
    return _HUMP.sub("_", name).lower()


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record inside a message; it has no tag of its own."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Tagged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=snake_case):
    """A member of a closed union. Its tag is its class name in snake case, under `type`."""
