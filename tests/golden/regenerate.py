"""Write one golden file per message of every closed union: run this as a script after adding one.

    .venv/bin/python tests/golden/regenerate.py          # writes what is missing
    .venv/bin/python tests/golden/regenerate.py --all    # writes all: only if no release reads
                                                         # the old ones, or a field was added

Every field of a sample is set to a value that is not its default, at every depth. The union and
its members are found by looking: a new one needs no entry anywhere.
"""

import importlib
import json
import pkgutil
import re
import sys
import types
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import inspect

from swarm.mailbox import protocol
from swarm.mailbox.protocol.values.base import Tagged

HERE = Path(__file__).parent
SAMPLE_ITEM = msgspec.msgpack.encode(
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
)


def find_unions() -> dict[str, tuple[type[Tagged], ...]]:
    """Name → members of every closed union of messages, those within another one left out."""
    found = {}
    for module in pkgutil.walk_packages(protocol.__path__, protocol.__name__ + "."):
        for name, value in vars(importlib.import_module(module.name)).items():
            members = members_of(value) if not name.startswith("_") else ()
            if members and (len(members) > 1 or name.startswith("Any")):
                words = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix("Any")).lower()
                found[words] = members
    return {
        name: members
        for name, members in found.items()
        if not any(set(members) < set(other) for other in found.values())
    }


def members_of(value: object) -> tuple[type[Tagged], ...]:
    args = get_args(value) if isinstance(value, types.UnionType) else (value,)
    fits = all(
        isinstance(one, type) and issubclass(one, Tagged) and one is not Tagged for one in args
    )
    return args if fits else ()


def tag_of(member: type[Tagged]) -> str:
    return str(member.__struct_config__.tag)


def sample(cls: type[msgspec.Struct]) -> msgspec.Struct:
    """An instance whose every field differs from its default."""
    values = {}
    info: Any = inspect.type_info(cls)
    for field in info.fields:
        values[field.name] = sample_of(field.type, field)
    return cls(**values)


def sample_of(kind: inspect.Type, field: inspect.Field) -> object:  # noqa: C901 - one case for each kind
    match kind:
        case inspect.UnionType(types=kinds):
            for one in kinds:
                if not isinstance(one, inspect.NoneType):
                    value = sample_of(one, field)
                    if value != field.default:
                        return value
        case inspect.StructType(cls=cls):
            return sample(cls)
        case inspect.LiteralType(values=values):
            return next(value for value in values if value != field.default)
        case inspect.VarTupleType(item_type=item):
            kinds = item.types if isinstance(item, inspect.UnionType) else (item,)
            return tuple(sample_of(one, field) for one in kinds)
        case inspect.ListType(item_type=item):
            return [sample_of(item, field)]
        case inspect.DictType(
            value_type=inspect.VarTupleType()
            | inspect.IntType()
            | inspect.FloatType()
            | inspect.LiteralType() as item
        ):
            return {"name": sample_of(item, field)}
        case inspect.DictType():
            return {"name": f"{field.name} value"}
        case inspect.BoolType():
            return field.default is not True
        case inspect.IntType():
            return 7 if field.default != 7 else 8
        case inspect.FloatType():
            return 2.5
        case inspect.StrType():
            return f"{field.name} “text” 1"
        case inspect.BytesType():
            return field.name.encode() + b"\x00\xff"
        case inspect.RawType():
            return msgspec.Raw(SAMPLE_ITEM)
    raise TypeError(f"no sample for field {field.name}: {kind}")


def readable(wire: bytes) -> object:
    """The message as plain JSON values; bytes that are no text appear as hex."""
    return plain(msgspec.msgpack.decode(wire))


def plain(value: object) -> object:
    match value:
        case bytes():
            return f"hex:{value.hex()}"
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list():
            return [plain(inner) for inner in value]
    return value


def golden_path(union: str, member: type[Tagged]) -> Path:
    return HERE / union / f"{tag_of(member)}.json"


def write_golden(path: Path, message: msgspec.Struct) -> None:
    wire = msgspec.msgpack.encode(message)
    path.parent.mkdir(exist_ok=True)
    content = {"message": readable(wire), "msgpack": wire.hex()}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    for union, members in find_unions().items():
        for member in members:
            path = golden_path(union, member)
            if "--all" in sys.argv or not path.exists():
                write_golden(path, sample(member))
                print(path.relative_to(HERE))


if __name__ == "__main__":
    main()
