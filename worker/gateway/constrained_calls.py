"""Tool calls of small models as JSON text that the server's grammar enforces.

A small model writes calls that cannot be read. A server with constrained decoding (llama.cpp, vLLM
and others take a JSON schema as `response_format`) lets it write nothing else than one object
`{"name": …, "arguments": …}`, whose name is an offered tool and whose arguments have the tool's
form. The answer for the user is a call as well, of `finish`. So every response can be read.

Only the arguments that a tool requires are offered: each further one is a chance to be wrong.
"""

from typing import cast

import msgspec

from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Message,
    OutputText,
    text_of,
)
from swarm.mailbox.protocol.sampling import ToolSpec

from .chat_request import ChatStore
from .chat_stream import ChatStream
from .request_encoding import HeadKey

FINISH = "finish"
_SUMMARY_CHARS = 300  # of a tool's description
_EXAMPLES: dict[str, dict[str, object]] = {
    "exec_command": {"cmd": "grep -rn 'def main' --include=*.py ."},
    "list_dir": {"dir_path": "."},
    "view_image": {"path": "picture.png"},
    FINISH: {"answer": "The function is in src/app.py."},
}
_to_json = msgspec.json.Encoder().encode

JsonObject = dict[str, object]


class WrittenCall(msgspec.Struct, frozen=True):
    """What the model writes."""

    name: str
    arguments: msgspec.Raw


_decode_call = msgspec.json.Decoder(WrittenCall).decode


def call_schema(tools: tuple[ToolSpec, ...], answer_schema: bytes | None) -> bytes:
    """The JSON schema of one response: a call of one of the tools, or of `finish`.

    Args:
        answer_schema: What the final answer must be; None: text.
    """
    return _to_json({"anyOf": [_call_form(*form) for form in _forms(tools, answer_schema)]})


def describe_calls(tools: tuple[ToolSpec, ...], answer_schema: bytes | None) -> str:
    """The part of the instructions that lists the tools, with an example of each."""
    lines = [
        "Every answer is exactly one JSON object that calls one tool. You see its output, then you "
        f"call the next tool. When the work is done, call {FINISH}. The tools:",
    ]
    abouts = {tool.name: _summary(tool.description) for tool in tools}
    abouts[FINISH] = "End the work with your final answer to the user."
    for name, form in _forms(tools, answer_schema):
        example = _EXAMPLES.get(name) or _placeholders(form)
        call = _to_json({"name": name, "arguments": example}).decode()
        lines.append(f"- {name}: {abouts[name]}\n  {call}")
    return "\n".join(lines)


def _forms(
    tools: tuple[ToolSpec, ...], answer_schema: bytes | None
) -> list[tuple[str, JsonObject]]:
    """Name and argument schema of each tool, with the required properties alone."""
    answer: object = {"type": "string"}
    if answer_schema is not None:
        answer = msgspec.json.decode(answer_schema)
    finish: JsonObject = {"properties": {"answer": answer}, "required": ["answer"]}
    return [
        *((tool.name, _required_only(msgspec.json.decode(tool.parameters))) for tool in tools),
        (FINISH, _required_only(finish)),
    ]


def _required_only(schema: object) -> JsonObject:
    table = cast("JsonObject", schema) if isinstance(schema, dict) else {}
    properties = cast("JsonObject", table.get("properties") or {})
    required = cast("list[str]", table.get("required") or [])
    kept = {name: properties[name] for name in required if name in properties}
    return {
        "type": "object",
        "properties": kept,
        "required": list(kept),
        "additionalProperties": False,
    }


def _call_form(name: str, arguments: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _placeholders(form: JsonObject) -> JsonObject:
    properties = cast("JsonObject", form["properties"])
    return {name: f"<{name}>" for name in properties}


def _summary(description: str) -> str:
    """The first paragraph, cut at a sentence."""
    text = " ".join(description.strip().partition("\n\n")[0].split())
    if len(text) <= _SUMMARY_CHARS:
        return text
    end = text.rfind(". ", 0, _SUMMARY_CHARS)
    return text[: end + 1] if end > 0 else text[:_SUMMARY_CHARS]


def as_text(item: AnyItem) -> AnyItem:
    """A call or its output as the message that the model writes or reads; others unchanged."""
    match item:
        case FunctionCall(name=name, arguments=arguments):
            return _written(name, arguments or "{}")
        case CustomToolCall(name=name, input=text):
            return _written(name, _to_json({"input": text}).decode())
        case FunctionCallOutput() | CustomToolCallOutput():
            output = item.output if isinstance(item.output, str) else text_of(item.output)
            return Message(role="user", content=(InputText(text=f"Output:\n{output}"),))
        case _:
            return item


def _written(name: str, arguments: str) -> Message:
    try:
        text = _to_json(WrittenCall(name, msgspec.Raw(arguments.encode()))).decode()
    except msgspec.MsgspecError:
        text = f'{{"name": "{name}"}}'
    return Message(role="assistant", content=(OutputText(text=text),))


class ConstrainedChatStore(ChatStore):
    """A conversation of the chat wire whose calls and outputs are plain messages."""

    def append(self, item: AnyItem) -> None:
        super().append(as_text(item))

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        if not key.tools or key.compacts:
            return super().body(key, cache_key)
        listing = describe_calls(key.tools, key.output_schema)
        bound = msgspec.structs.replace(
            key,
            tools=(),
            instructions=f"{key.instructions}\n\n{listing}".strip(),
            output_schema=call_schema(key.tools, key.output_schema),
        )
        return super().body(bound, cache_key)

    def with_partial(self, key: HeadKey, cache_key: str, text: str) -> tuple[bytes, ...]:
        return ()  # half a call is asked for again, from its beginning


class ConstrainedChatStream(ChatStream):
    """One response that is one call. The call of `finish` becomes the message of the answer."""

    def _take_text(self, text: str) -> None:
        """The JSON text is kept, and not shown while it arrives."""
        self._text.add(text)

    def _emit_items(self, *, truncated: bool) -> None:
        try:
            call = _decode_call(self._text.whole().strip())
        except msgspec.MsgspecError:
            super()._emit_items(truncated=truncated)
            return
        arguments = bytes(call.arguments).decode()
        if call.name != FINISH:
            call_id = f"call_{self._new_id()}"
            self._emit_item(FunctionCall(call_id=call_id, name=call.name, arguments=arguments))
            return
        part = OutputText(text=_answer(call.arguments))
        self._emit_item(Message(role="assistant", content=(part,), id=f"msg_{self._new_id()}"))


def _answer(arguments: msgspec.Raw) -> str:
    """The answer of `finish`: its text, or its object as JSON."""
    table = cast("JsonObject", msgspec.json.decode(arguments))
    answer = table.get("answer", "")
    return answer if isinstance(answer, str) else _to_json(answer).decode()
