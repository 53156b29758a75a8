"""Function tools: description and JSON schema for models, and the arguments that models write.

A tool's arguments are one struct. The schema is made from its fields: their types, and what
`Annotated[..., described(...)]` says of them.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from swarm.mailbox.base.call_arguments import decode_call_arguments
from swarm.mailbox.protocol.events import AnyCallDetail
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ...policy.command_decision import PolicyDecision, Run
from .tool_interface import ABORTED_CALL, Invocation, OnOutput, ToolFailed, ToolResult

Arguments = TypeVar("Arguments", bound=msgspec.Struct)
Schema = dict[str, object]
NUMBER: Schema = {"type": "number"}  # for integers that models may write as 1000.0
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w ,]{1,60}>|old_text|new_text")
HIDDEN = Meta(extra={"hidden": True})  # accepted, but models are not told of it
REQUIRED = {"required": True}  # for `Meta(extra=…)`: asked for, but its absence is accepted
_NAMES: dict[object, str] = {
    str: "string",
    int: "integer",
    bool: "boolean",
    dict: "object",
    msgspec.Raw: "object",
}


def described(text: str, schema: Schema | None = None) -> Meta:
    """Return the annotation of a field: its description, and what differs in its schema."""
    return Meta(description=text, extra_json_schema=schema)


class FunctionTool(ABC):
    """Base of the tools that are called with a JSON object."""

    name: str
    arguments: type[msgspec.Struct]
    parallel = False
    aborted_text = ABORTED_CALL

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        """Return the description for this model; None: the tool is not offered."""
        if not self.is_offered(model):
            return None
        return ToolSpec(
            name=self.name, description=self.description(), parameters=self.parameters()
        )

    def is_offered(self, model: ModelInfo) -> bool:
        return True

    def description(self) -> str:
        return description_of(self.name)

    def parameters(self) -> bytes:
        """Return the JSON schema of the arguments."""
        return encode_schema(self.arguments)

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    @abstractmethod
    async def prepare(self, call: AnyCall) -> Invocation: ...


class DirectInvocation:
    """A prepared call that needs no approval: what people see of it, and what performs it."""

    def __init__(self, detail: AnyCallDetail, act: Callable[[], Awaitable[ToolResult]]) -> None:
        self.detail, self._act = detail, act

    def judge(self) -> PolicyDecision:
        return Run()

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        return await self._act()


def decode_arguments(call: AnyCall, kind: type[Arguments]) -> Arguments:
    """Return the call's arguments as the tool's struct. Raises ToolFailed, naming the wrong place.

    Read as models mean them (`decode_call_arguments`): null is what is left out, text may hold the
    list, the object or the number that is wanted.
    """
    if not isinstance(call, FunctionCall):
        raise ToolFailed(f"tool {call.name} invoked with incompatible payload")
    try:
        return decode_call_arguments(call.arguments, kind)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        right = msgspec.json.encode(example_of(kind)).decode()
        text = f"failed to parse function arguments: {error}. {call.name} takes {right}"
        raise ToolFailed(text) from error


def example_of(kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return the arguments of a right call: those that are required, as placeholders."""
    properties, required = _fields_of(kind)
    return {name: placeholder(name, properties[name]) for name in required or list(properties)[:1]}


def placeholder(name: str, schema: object) -> object:
    """Return a value of this JSON schema that says what belongs there."""
    table = cast("Schema", schema) if isinstance(schema, dict) else {}
    match table.get("type"):
        case "object":
            return {}
        case "array":
            inner = cast("Schema", table.get("items") or {})
            fields = cast("Schema", inner.get("properties") or {})
            return [{one: placeholder(one, field) for one, field in fields.items()} or f"<{name}>"]
        case "number" | "integer":
            return 1
        case "boolean":
            return True
        case _:
            choices = cast("Sequence[str]", table.get("enum") or ())
            return choices[0] if choices else f"<{name}>"


def is_placeholder(text: str) -> bool:
    """True for the words of an example in place of a value: small models copy those."""
    return _PLACEHOLDER.fullmatch(text.strip()) is not None


def encode_schema(
    kind: type[msgspec.Struct],
    *,
    without: Collection[str] = (),
    notes: Mapping[str, str] | None = None,
) -> bytes:
    """Return the JSON schema of a struct; its bytes never vary.

    Args:
        kind: The tool's arguments.
        without: Fields that this agent's models are not told of.
        notes: Descriptions that only this agent knows, by field.
    """
    properties, required = _fields_of(kind)
    shown = {name: schema for name, schema in properties.items() if name not in without}
    for name, text in (notes or {}).items():
        shown[name] = {**shown[name], "description": text}
    return msgspec.json.encode(_object(shown, required))


def _object(properties: dict[str, Schema], required: list[str]) -> Schema:
    """Return an object's schema. It says only what a model needs: each byte is in each request."""
    need = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **need}


@cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[dict[str, Schema], list[str]]:
    """Return the schema of each field, sorted unless `kind.SORTED` is False, and the required ones,
    in their order.
    """
    hints = get_type_hints(kind, include_extras=True)
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for field in msgspec.structs.fields(kind):
        marks = _marks_of(hints[field.name])
        if "hidden" not in marks:
            properties[field.encode_name] = _schema_of(hints[field.name])
            if field.required or "required" in marks:
                required.append(field.encode_name)
    is_sorted = getattr(kind, "SORTED", True)
    return dict(sorted(properties.items())) if is_sorted else properties, required


def _marks_of(hint: object) -> Mapping[str, object]:
    meta = get_args(hint)[1] if get_origin(hint) is Annotated else Meta()
    return meta.extra or {}


def _schema_of(hint: object) -> Schema:
    """Return the schema of a type; of a union, that of its first member."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner, meta = arguments
        note = {} if meta.description is None else {"description": meta.description}
        return {**_schema_of(inner), **(meta.extra_json_schema or {}), **note}
    if origin in (Union, UnionType):
        return _schema_of(arguments[0])
    if origin is Literal:
        return {"type": "string", "enum": arguments}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0])}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _object(*_fields_of(hint))
    return {"type": _NAMES[origin or hint]}


def read_descriptions(folder: Path) -> dict[str, str]:
    """The descriptions of the tools in a folder, in `.md` files; read once, at import."""
    return {
        path.stem: path.read_text(encoding="utf-8").strip() for path in sorted(folder.glob("*.md"))
    }


_TEXTS = read_descriptions(Path(__file__).parents[1])


def description_of(name: str) -> str:
    """Return the tool's description for models. Raises KeyError for a tool without one."""
    return _TEXTS[name]
