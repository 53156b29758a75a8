"""Base structs of all messages: frozen, keyword-only, tagged by `type`, defaults omitted.

New fields have defaults and old fields keep their meaning. `PROTOCOL_VERSION` grows only when that
is impossible. Unknown fields are ignored, so a newer peer may add some.
"""

import re
from typing import TypeVar, dataclass_transform

import msgspec

PROTOCOL_VERSION = 1
SCHEMA_VERSION = 1  # of the journal's lines and of every `--json` line

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


def snake_case(name: str) -> str:
    """`TurnStarted` → `turn_started`: the wire name of a struct."""
    return _HUMP.sub("_", name).lower()


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record inside a message, without a tag of its own."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Tagged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=snake_case):
    """A member of a closed union. Its tag is its class name in snake case, under `type`."""


_Extended = TypeVar("_Extended", bound=Value)


def with_shared(target: _Extended, keys: type[Value], source: Value) -> _Extended:
    """The target with every field of `keys`, a struct that both extend, as the source has it."""
    shared = {name: getattr(source, name) for name in keys.__struct_fields__}
    return msgspec.structs.replace(target, **shared)
