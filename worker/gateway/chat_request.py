"""The request body of the Chat Completions wire: messages as JSON bytes.

Strict servers require that tool messages directly follow their calls; many chat templates require
exactly one system message, the first one, and refuse two messages of the user in a row. So the
store groups the calls and outputs of a response as they arrive, puts messages that came in between
after them, joins leading developer messages to the system message, and joins neighbouring messages
of the user. Mail from other agents, and later words of a developer, get the role user. All this is
decided when an item arrives; a request encodes only what is still open at the end.
"""

from typing import Literal, cast

import msgspec

from swarm.mailbox.protocol.items import (
    ContentPart,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    Message,
    Reasoning,
    text_of,
)
from swarm.mailbox.protocol.sampling import ToolSpec
from swarm.mailbox.protocol.settings import SamplingSettings

from .effort_choice import requested_effort
from .fit.dialect import BEGINNING, FOREIGN_SIGNATURE, NO_REASONING, NOTED, Dialect
from .fit.item_fitting import own_fields
from .fit.neighbours import later_developer_text
from .request_encoding import (
    NO_OUTPUT,
    GroupedItemStore,
    HeadKey,
    RequestHead,
    encode_fields,
    is_strict,
    to_json,
    told_instructions,
)

_decode_table = msgspec.json.Decoder(dict[str, object]).decode
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


_Content = str | tuple[_Text | _Image, ...]


class _ChatMessage(msgspec.Struct, omit_defaults=True):
    role: str
    content: _Content | msgspec.UnsetType | None = msgspec.UNSET
    tool_calls: tuple[msgspec.Raw, ...] = ()
    tool_call_id: str = ""


_NOTED = to_json(_ChatMessage(role="assistant", content=NOTED))
_EMPTY: dict[str, str | msgspec.UnsetType | None] = {
    "null": None,
    "text": "",
    "absent": msgspec.UNSET,
}


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
    return_progress: bool | None = None  # of llama.cpp: how far it has read the prompt


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
        return_progress=is_embedded or None,
    )
    _add_sampling(head, key.sampling, is_embedded=is_embedded)
    before = encode_fields(head, key.dialect)
    return RequestHead(before=before[:-1] + b',"messages":[', after=b"]}")


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
        self.reasoning: list[Reasoning] = []
        self.calls: list[FunctionCall] = []
        self.outputs: dict[str, bytes] = {}
        self.later: list[_Content] = []  # a user's messages that came between calls and outputs

    @property
    def is_waiting(self) -> bool:
        return len(self.outputs) < len(self.calls)

    def encode(self, dialect: Dialect) -> list[bytes]:
        """The messages of the group; a missing output is replaced by a text that says so."""
        if not (self.texts or self.calls):
            return []
        message = _ChatMessage(
            role="assistant",
            content="\n\n".join(self.texts) if self.texts else _EMPTY[dialect.empty_content],
            tool_calls=tuple(_encode_call(call) for call in self.calls),
        )
        table = _decode_table(to_json(message))
        table |= self._own_fields(dialect)
        if dialect.needs_signature and self.calls:
            _add_signature(table)
        lost = (call.call_id for call in self.calls if call.call_id not in self.outputs)
        missing = {name: _tool_message(name, NO_OUTPUT) for name in lost}
        outputs = {**self.outputs, **missing}
        return [to_json(table), *(outputs[call.call_id] for call in self.calls)]

    def _own_fields(self, dialect: Dialect) -> dict[str, object]:
        """What goes back to the provider under its own names."""
        fields: dict[str, object] = {}
        unnamed = [text for item in self.reasoning if item.origin is None for text in item.content]
        if unnamed and "reasoning" not in dialect.left_out:
            fields["reasoning"] = "\n".join(unnamed)
        for item in self.reasoning:
            text = "".join(item.content)
            for name, raw in own_fields(item.origin).items():
                fields[name] = text if bytes(raw) == b"null" else raw
        name = dialect.needs_reasoning
        if name and self.calls and name not in fields:
            fields[name] = "\n".join(unnamed) or NO_REASONING
        return fields


def _encode_call(call: FunctionCall) -> msgspec.Raw:
    """The call, with the fields of it that only this provider understands."""
    called = _Called(name=call.name, arguments=call.arguments)
    data = to_json(_Call(call.call_id, "function", called))
    if not (fields := own_fields(call.origin)):
        return msgspec.Raw(data)
    table = _decode_table(data)
    inner = fields.pop("function", None)
    if inner is not None:
        table["function"] = _decode_table(to_json(called)) | _decode_table(inner)
    return msgspec.Raw(to_json(table | fields))


def _add_signature(table: dict[str, object]) -> None:
    """Give the first call a signature, where another model made the calls."""
    calls = cast("list[dict[str, object]]", table["tool_calls"])
    if not any("thought_signature" in str(call) for call in calls):
        calls[0]["extra_content"] = {"google": {"thought_signature": FOREIGN_SIGNATURE}}


def _tool_message(call_id: str, content: "_Content") -> bytes:
    return to_json(_ChatMessage(role="tool", content=content, tool_call_id=call_id))


def _user_message(contents: list["_Content"]) -> bytes:
    """Neighbouring messages of the user as one: many templates refuse two in a row."""
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return to_json(_ChatMessage(role="user", content="\n\n".join(texts)))
    parts: list[_Text | _Image] = []
    for content in contents:
        parts += (_Text(text=content),) if isinstance(content, str) else content
    return to_json(_ChatMessage(role="user", content=tuple(parts)))


class ChatStore(GroupedItemStore):
    """The settled messages as one buffer, the group that may still grow, and the user's messages
    after it, which are sent as one.
    """

    def clear(self) -> None:
        super().clear()
        self._leading: list[str] = []  # developer texts at the start: part of the system message
        self._system: tuple[str, bytes] | None = None  # instructions → the encoded message
        self._settled = bytearray()
        self._is_after_tool = False  # the last settled message is a tool's output
        self._group = _Group()
        self._user: list[_Content] = []  # messages of the user that are not settled
        self._begun = False

    @property
    def _is_at_start(self) -> bool:
        return not self._begun

    def _add_leading(self, text: str) -> None:
        self._leading.append(text)
        self._system = None

    def _add_answer_text(self, text: str) -> None:
        if text.strip():  # servers refuse a message that says nothing
            self._answer().texts.append(text)

    def _add_reasoning(self, item: Reasoning) -> None:
        if item.encrypted_content is None:  # sealed reasoning is of another wire
            self._answer().reasoning.append(item)

    def _add_call(self, call: FunctionCall) -> None:
        self._answer().calls.append(call)

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        head = self._heads.get(key)
        instructions = told_instructions(key, "response_format")
        messages = self._system_messages(instructions) if instructions or self._leading else []
        if self._settled:
            messages.append(bytes(self._settled))
        messages += self._open_messages()
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

    def _system_messages(self, instructions: str) -> list[bytes]:
        if self._system is None or self._system[0] != instructions:
            text = "\n\n".join(part for part in (instructions, *self._leading) if part)
            role = "system" if self._dialect.system else "user"
            self._system = (instructions, to_json(_ChatMessage(role=role, content=text)))
        return [self._system[1]] if self._dialect.system else [self._system[1], _NOTED]

    def _open_messages(self) -> list[bytes]:
        """What is not settled: the open group, and the user's messages after it."""
        messages = self._group.encode(self._dialect)
        if contents := [*self._user, *self._group.later]:
            is_after_tool = bool(self._group.calls) or (not messages and self._is_after_tool)
            if is_after_tool and not self._dialect.user_after_tool:
                messages.append(_NOTED)
            messages.append(_user_message(contents))
        return messages

    def _answer(self) -> _Group:
        """The group for an item of the model: a new one after outputs or other messages."""
        if not self._begun and self._dialect.alternates:
            self._user.append(BEGINNING)
        self._begun = True
        if self._group.outputs or self._group.later or self._user:
            self._settle()
        return self._group

    def _add_message(self, item: Message) -> None:
        self._begun = True
        group = self._group
        if group.is_waiting:
            group.later.append(self._content(item))
            return
        if group.texts or group.calls:
            self._settle()
        self._user.append(self._content(item))

    def _add_output(self, item: FunctionCallOutput | CustomToolCallOutput) -> None:
        self._begun, group = True, self._group
        if item.call_id not in {call.call_id for call in group.calls} - group.outputs.keys():
            return  # an output without its call: strict servers would refuse the whole request
        output = item.output
        content = output if isinstance(output, str) else self._parts(output)
        group.outputs[item.call_id] = _tool_message(item.call_id, content)
        if not group.is_waiting:
            later = group.later
            group.later = []
            self._settle()
            self._user = later

    def _settle(self) -> None:
        """Write what is open; it never changes again."""
        group = self._group
        self._extend(self._open_messages())
        self._is_after_tool = bool(group.calls) and not (group.later or self._user)
        self._group, self._user = _Group(), []

    def _extend(self, messages: list[bytes]) -> None:
        for message in messages:
            if self._settled:
                self._settled += b","
            self._settled += message

    def _content(self, item: Message) -> "_Content":
        """A message of the user, of another agent, or of a developer in mid-conversation."""
        if item.role == "developer" and item.author is None:
            return later_developer_text(text_of(item.content))
        return self._parts(item.content)

    def _parts(self, content: tuple[ContentPart, ...]) -> "_Content":
        shown = self._resolve(content)
        if not any(isinstance(part, InputImage) for part in shown):
            return text_of(shown)
        return tuple(
            _Image(image_url=_Url(part.image_url))
            if isinstance(part, InputImage)
            else _Text(text=part.text)
            for part in shown
        )
