"""The head of a Messages request: model, limits, thinking, output format, tools, instructions.

It holds two of the four cache marks: one after the last tool, since agents of all roles share the
tools, and one after the instructions, which the agents of one role share.
"""

from typing import NamedTuple, cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from .effort_choice import nearest_effort
from .messages_request import CACHE_MARK
from .request_encoding import (
    HeadKey,
    RequestHead,
    encode_fields,
    is_strict,
    schema_text,
    to_json,
)

MAX_TOKENS_UNKNOWN = 8_192  # for a model without an entry: a value that all models allow
# Keywords that a server cannot compile to a grammar; it would refuse a schema with one of them.
_NO_GRAMMAR = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
        "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minProperties",
        "maxProperties", "patternProperties", "propertyNames", "oneOf", "not", "if", "then",
        "else", "dependentRequired", "dependentSchemas", "contains", "$ref",
    }
)  # fmt: skip


LEAST_BUDGET = 1_024  # tokens; servers refuse a smaller budget
_ANSWER_TOKENS = 4_096  # reserved for the answer after thinking
_BUDGETS = {
    "minimal": LEAST_BUDGET, "low": 4_096, "medium": 12_288, "high": 24_576, "xhigh": 49_152,
    "max": 98_304,
}  # fmt: skip


_ONE_CALL = b',"tool_choice":{"type":"auto","disable_parallel_tool_use":true}'


class _Tool(msgspec.Struct):
    name: str
    description: str
    input_schema: msgspec.Raw


class _Head(msgspec.Struct, omit_defaults=True):
    model: str
    max_tokens: int
    stream: bool | None = None
    thinking: dict[str, str | int] | None = None
    output_config: dict[str, object] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None


def encode_head(key: HeadKey) -> RequestHead:
    """`before` ends with the tools; `after` is the instructions' block of the system prompt."""
    model = key.model
    limit = model.max_output_tokens or MAX_TOKENS_UNKNOWN
    limit = min(limit, key.dialect.max_output_tokens or limit)
    shown = key.summary != "none"
    asked = thinking_parameters(model, key.effort, max_tokens=limit, shown=shown)
    output: dict[str, object] = {} if asked.effort is None else {"effort": asked.effort}
    blocks: list[bytes] = []
    if key.instructions.strip():
        blocks.append(_system(key.instructions)[:-1] + CACHE_MARK + b"}")
    if key.output_schema is not None:
        is_taken = key.dialect.refused_fields.isdisjoint({"output_config", "output_config.format"})
        if model.structured_output and is_taken and has_grammar(key.output_schema):
            schema = msgspec.Raw(key.output_schema)
            output["format"] = {"type": "json_schema", "schema": schema}
        else:
            blocks.append(_system(schema_text(key.output_schema)))
    head = _Head(
        model=model.slug,
        max_tokens=limit,
        stream=True,
        thinking=asked.thinking,
        output_config=output or None,
    )
    if asked.thinking is None or asked.thinking["type"] == "disabled":  # else servers refuse them
        sampling = key.sampling
        head.temperature, head.top_p = sampling.temperature, sampling.top_p
        head.top_k = sampling.top_k
    before = encode_fields(head, key.dialect)[:-1] + _tools(model, key.tools)
    if "tool_choice" in key.dialect.refused_fields:
        before = before.removesuffix(_ONE_CALL)
    encoded = RequestHead(before=before, after=b",".join(blocks))
    if "cache_control" not in key.dialect.refused_fields:
        return encoded
    return RequestHead(
        before=encoded.before.replace(CACHE_MARK, b""), after=encoded.after.replace(CACHE_MARK, b"")
    )


def _system(text: str) -> bytes:
    return to_json({"type": "text", "text": text})


def _tools(model: ModelInfo, tools: tuple[ToolSpec, ...]) -> bytes:
    """The tools and their `tool_choice`; a freeform tool becomes a function."""
    if not tools or not model.can_call_tools:
        return b""
    encoded = [
        to_json(
            _Tool(
                name=tool.name,
                description=tool.description,
                input_schema=msgspec.Raw(_as_object(tool.parameters)),
            )
        )
        for tool in tools
    ]
    encoded[-1] = encoded[-1][:-1] + CACHE_MARK + b"}"
    text = b',"tools":[' + b",".join(encoded) + b"]"
    if not model.parallel_tool_calls:
        text += _ONE_CALL
    return text


def _as_object(schema: bytes) -> bytes:
    """A tool's schema must say that it is an object."""
    table = cast("dict[str, object]", decode_json(schema))
    return schema if table.get("type") == "object" else to_json({"type": "object"} | table)


def has_grammar(schema: bytes) -> bool:
    """True if the server can enforce this schema with a grammar."""
    return is_strict(schema) and not _is_beyond(decode_json(schema))


def _is_beyond(node: object) -> bool:
    if isinstance(node, list):
        return any(map(_is_beyond, cast("list[object]", node)))
    if not isinstance(node, dict):
        return False
    table = cast("dict[str, object]", node)
    if isinstance(properties := table.get("properties"), dict):
        inner = cast("dict[str, object]", properties).values()
        rest = {name: one for name, one in table.items() if name != "properties"}
        return any(map(_is_beyond, inner)) or _is_beyond(rest)
    if table.get("type") == "object" and table.get("additionalProperties") is not False:
        return True
    return bool(_NO_GRAMMAR & table.keys()) or any(map(_is_beyond, table.values()))


class ThinkingParameters(NamedTuple):
    """The thinking fields of a request; None: the field is left out."""

    thinking: dict[str, str | int] | None = None
    effort: str | None = None


def thinking_parameters(
    model: ModelInfo, effort: str | None, *, max_tokens: int, shown: bool = True
) -> ThinkingParameters:
    """Translate an effort for the model's kind of thinking (`ModelInfo.thinking`).

    `shown` False: the server need not send the text of the thinking, only what it requires back.
    """
    if not model.reasoning:
        return ThinkingParameters()
    wanted = effort or model.default_effort
    match model.thinking:
        case "adaptive" if wanted == "none":
            return ThinkingParameters(thinking={"type": "disabled"})
        case "adaptive" | "always":
            display = "summarized" if shown else "omitted"
            asked: dict[str, str | int] = {"type": "adaptive", "display": display}
            return ThinkingParameters(thinking=asked, effort=nearest_effort(wanted, model.efforts))
        case "budget" if wanted != "none":
            room = max_tokens - _ANSWER_TOKENS
            budget = min(_BUDGETS.get(wanted or "", _BUDGETS["medium"]), room)
            if budget >= LEAST_BUDGET:
                return ThinkingParameters(thinking={"type": "enabled", "budget_tokens": budget})
            return ThinkingParameters()
        case _:
            return ThinkingParameters()
