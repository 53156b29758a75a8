"""The request body of the Chat Completions wire: messages as JSON bytes.

Strict servers require that tool messages directly follow their calls; many chat templates require
exactly one system message, the first one. So the store groups the calls and outputs of a response
as they arrive, puts messages that came in between after them, and joins leading developer messages
to the system message. Mail from other agents gets the role user, never the role of the model. All
this is decided when an item arrives; a request encodes only the last, still open group.
"""

from typing import Literal

import msgspec

from swarm.mailbox.protocol.items import (
    ContentPart,
    CustomToolCallOutput,
    FunctionCallOutput,
    InputImage,
    Message,
    Reasoning,
    text_of,
)
from swarm.mailbox.protocol.sampling import ToolSpec
from swarm.mailbox.protocol.settings import SamplingSettings

from .effort_choice import requested_effort
from .request_encoding import (
    NO_OUTPUT,
    GroupedItemStore,
    HeadKey,
    RequestHead,
    is_strict,
    to_json,
)

_CONTINUES = b'],"continue_final_message":true,"add_generation_prompt":false'
_EMBEDDED_TEMPERATURE = 0.1  # small models lose their way when they vary


class _Called(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    type: Literal["function"]
    function: _Called


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _Url(msgspec.Struct):
    url: str


class _Image(msgspec.Struct, tag_field="type", tag="image_url"):
    image_url: _Url


class _ChatMessage(msgspec.Struct, omit_defaults=True):
    role: str
    content: str | tuple[_Text | _Image, ...] | msgspec.UnsetType | None = msgspec.UNSET
    reasoning: str = ""
    tool_calls: tuple[_Call, ...] = ()
    tool_call_id: str = ""


class _Function(msgspec.Struct):
    name: str
    description: str
    parameters: msgspec.Raw


class _Tool(msgspec.Struct, tag_field="type", tag="function"):
    function: _Function


class _Schema(msgspec.Struct):
    name: str
    strict: bool
    schema: msgspec.Raw


class _ResponseFormat(msgspec.Struct, tag_field="type", tag="json_schema"):
    json_schema: _Schema


class _Head(msgspec.Struct, omit_defaults=True):
    model: str
    stream: bool | None = None
    stream_options: dict[str, bool] | None = None
    tools: tuple[_Tool, ...] = ()
    reasoning_effort: str | None = None
    verbosity: str | None = None
    response_format: _ResponseFormat | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    top_p: float | None = None
    top_k: int | None = None  # this and the next two: of local servers
    min_p: float | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


def encode_tool(tool: ToolSpec) -> _Tool:
    """Every tool becomes a function; this wire has no grammars."""
    parameters = msgspec.Raw(tool.parameters)
    return _Tool(
        function=_Function(name=tool.name, description=tool.description, parameters=parameters)
    )


def encode_head(key: HeadKey) -> RequestHead:
    """All but the messages comes first. The store adds the system message, which depends on the
    conversation.
    """
    model = key.model
    is_embedded = model.wire == "local"
    schema = None
    if key.output_schema is not None:
        raw = msgspec.Raw(key.output_schema)
        strict = is_strict(key.output_schema)
        schema = _ResponseFormat(json_schema=_Schema(name="output", strict=strict, schema=raw))
    head = _Head(
        model=model.slug,
        stream=True,
        stream_options={"include_usage": True},
        tools=tuple(map(encode_tool, key.tools)) if model.can_call_tools else (),
        reasoning_effort=requested_effort(model, key.effort) if model.reasoning else None,
        verbosity=key.verbosity,
        response_format=schema,
        max_tokens=model.max_output_tokens if is_embedded else None,
    )
    _add_sampling(head, key.sampling, is_embedded=is_embedded)
    return RequestHead(before=to_json(head)[:-1] + b',"messages":[', after=b"]}")


def _add_sampling(head: _Head, wanted: SamplingSettings, *, is_embedded: bool) -> None:
    """Set the fields; the embedded model's defaults give the same question the same answer."""
    head.temperature, head.seed = wanted.temperature, wanted.seed
    if is_embedded and head.temperature is None:
        head.temperature = _EMBEDDED_TEMPERATURE
    if is_embedded and head.seed is None:
        head.seed = 1
    head.top_p, head.top_k, head.min_p = wanted.top_p, wanted.top_k, wanted.min_p
    head.repeat_penalty = wanted.repeat_penalty
    head.presence_penalty = wanted.presence_penalty
    head.frequency_penalty = wanted.frequency_penalty


class _Group:
    """One response and the outputs of its calls, until all outputs have arrived."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[_Call] = []
        self.outputs: dict[str, bytes] = {}
        self.later: list[bytes] = []  # messages that came between calls and outputs

    @property
    def is_waiting(self) -> bool:
        return len(self.outputs) < len(self.calls)

    def encode(self) -> list[bytes]:
        """The messages of the group; a missing output is replaced by a text that says so."""
        if not (self.texts or self.calls):
            return list(self.later)
        message = _ChatMessage(
            role="assistant",
            content="\n\n".join(self.texts) if self.texts else None,
            reasoning="\n".join(self.reasoning),
            tool_calls=tuple(self.calls),
        )
        lost = (call.id for call in self.calls if call.id not in self.outputs)
        missing = {name: _tool_message(name, NO_OUTPUT) for name in lost}
        outputs = {**self.outputs, **missing}
        return [to_json(message), *(outputs[call.id] for call in self.calls), *self.later]


def _tool_message(call_id: str, content: str | tuple[_Text | _Image, ...]) -> bytes:
    return to_json(_ChatMessage(role="tool", content=content, tool_call_id=call_id))


class ChatStore(GroupedItemStore):
    """The settled messages as one buffer, and the group that may still grow."""

    def clear(self) -> None:
        super().clear()
        self._leading: list[str] = []  # developer texts at the start: part of the system message
        self._system: tuple[str, bytes] | None = None  # instructions → the encoded message
        self._settled = bytearray()
        self._group = _Group()
        self._begun = False

    @property
    def _is_at_start(self) -> bool:
        return not self._begun

    def _add_leading(self, text: str) -> None:
        self._leading.append(text)
        self._system = None

    def _add_answer_text(self, text: str) -> None:
        self._answer().texts.append(text)

    def _add_reasoning(self, item: Reasoning) -> None:
        self._answer().reasoning.extend(item.content)

    def _add_call(self, call_id: str, name: str, arguments: str) -> None:
        called = _Called(name=name, arguments=arguments or "{}")
        self._answer().calls.append(_Call(call_id, "function", called))

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        head = self._heads.get(key)
        messages = [self._system_message(key.instructions)] if self._has_system(key) else []
        if self._settled:
            messages.append(bytes(self._settled))
        messages += self._group.encode()
        return (head.before, b",".join(messages), head.after)

    def with_partial(self, key: HeadKey, cache_key: str, text: str) -> tuple[bytes, ...]:
        """Servers continue a last assistant message; vLLM and SGLang need the flags in
        `_CONTINUES`.
        """
        if self._group.texts or self._group.calls:
            return ()  # chat templates treat two assistant messages in a row differently
        before, messages, after = self.body(key, cache_key)
        last = to_json(_ChatMessage(role="assistant", content=text))
        return (before, messages, b",", last, _CONTINUES, after.removeprefix(b"]"))

    def _has_system(self, key: HeadKey) -> bool:
        return bool(key.instructions or self._leading)

    def _system_message(self, instructions: str) -> bytes:
        if self._system is None or self._system[0] != instructions:
            text = "\n\n".join(part for part in (instructions, *self._leading) if part)
            self._system = (instructions, to_json(_ChatMessage(role="system", content=text)))
        return self._system[1]

    def _answer(self) -> _Group:
        """The group for an item of the model: a new one after outputs or other messages."""
        self._begun = True
        if self._group.outputs or self._group.later:
            self._settle()
        return self._group

    def _add_message(self, item: Message) -> None:
        self._begun = True
        message = self._message(item)
        if self._group.is_waiting:
            self._group.later.append(message)
            return
        self._settle()
        self._extend([message])

    def _add_output(self, item: FunctionCallOutput | CustomToolCallOutput) -> None:
        self._begun, group = True, self._group
        if item.call_id not in {call.id for call in group.calls} - group.outputs.keys():
            return  # an output without its call: strict servers would refuse the whole request
        output = item.output
        content = output if isinstance(output, str) else self._parts(output)
        group.outputs[item.call_id] = _tool_message(item.call_id, content)
        if not group.is_waiting:
            self._settle()

    def _settle(self) -> None:
        self._extend(self._group.encode())
        self._group = _Group()

    def _extend(self, messages: list[bytes]) -> None:
        for message in messages:
            if self._settled:
                self._settled += b","
            self._settled += message

    def _message(self, item: Message) -> bytes:
        role: str = item.role
        if item.author is not None:
            role = "user"  # mail: many templates end at, or continue, a last assistant message
        elif role == "developer":
            role = "user" if self._context.tolerant else "system"
        if any(isinstance(part, InputImage) for part in item.content):
            return to_json(_ChatMessage(role=role, content=self._parts(item.content)))
        return to_json(_ChatMessage(role=role, content=text_of(item.content)))

    def _parts(self, content: tuple[ContentPart, ...]) -> str | tuple[_Text | _Image, ...]:
        shown = self._resolve(content)
        if not any(isinstance(part, InputImage) for part in shown):
            return text_of(shown)
        return tuple(
            _Image(image_url=_Url(part.image_url))
            if isinstance(part, InputImage)
            else _Text(text=part.text)
            for part in shown
        )
