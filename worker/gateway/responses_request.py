"""The request body of the Responses wire: items, head and tail as JSON bytes.

The key order is that of Codex 0.169, with `instructions` as its own field. Fields that strict
servers reject (item ids, author, success, client metadata) are never sent. Mail from other agents
has the role user, unless the model's catalogue entry says that it was trained on another form.
"""

from typing import Literal

import msgspec

from swarm.mailbox.protocol.items import (
    AnyItem,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Reasoning,
    text_message,
    text_of,
)
from swarm.mailbox.protocol.sampling import ToolSpec

from .request_encoding import (
    SEAL,
    EncodedItemStore,
    HeadKey,
    RequestHead,
    is_strict,
    to_json,
)


class _SummaryText(msgspec.Struct, tag_field="type", tag="summary_text"):
    text: str


class _Reasoning(msgspec.Struct, tag_field="type", tag="reasoning"):
    summary: tuple[_SummaryText, ...]
    encrypted_content: str | None


class _Function(msgspec.Struct, tag_field="type", tag="function"):
    name: str
    description: str
    strict: bool
    parameters: msgspec.Raw


class _Grammar(msgspec.Struct, tag_field="type", tag="grammar"):
    syntax: Literal["lark"]
    definition: str


class _Custom(msgspec.Struct, tag_field="type", tag="custom"):
    name: str
    description: str
    format: _Grammar


class _Effort(msgspec.Struct, omit_defaults=True):
    effort: str | None = None
    summary: str | None = None


class _Format(msgspec.Struct, tag_field="type", tag="json_schema"):
    strict: bool
    schema: msgspec.Raw
    name: str


class _Text(msgspec.Struct, omit_defaults=True):
    verbosity: str | None = None
    format: _Format | None = None


class _Before(msgspec.Struct, omit_defaults=True):
    model: str
    instructions: str = ""
    stream: bool | None = None


class _After(msgspec.Struct):
    tools: tuple[_Function | _Custom, ...]
    tool_choice: str
    parallel_tool_calls: bool
    reasoning: _Effort | None
    store: bool
    include: tuple[str, ...]


def encode_tool(tool: ToolSpec, *, freeform: bool) -> _Function | _Custom:
    """A freeform tool keeps its grammar only if the model supports freeform tools."""
    if tool.grammar is not None and freeform:
        grammar = _Grammar(syntax="lark", definition=tool.grammar)
        return _Custom(name=tool.name, description=tool.description, format=grammar)
    return _Function(
        name=tool.name,
        description=tool.description,
        strict=False,
        parameters=msgspec.Raw(tool.parameters),
    )


def encode_head(key: HeadKey) -> RequestHead:
    """Everything except the items and the fields of a single agent."""
    if key.compacts:
        return _compaction_head(key)
    model = key.model
    tools = key.tools if model.can_call_tools else ()
    summary = None if key.summary == "none" else key.summary
    effort = _Effort(effort=key.effort or model.default_effort, summary=summary)
    after = _After(
        tools=tuple(encode_tool(tool, freeform=model.freeform_tools) for tool in tools),
        tool_choice="auto",
        parallel_tool_calls=model.parallel_tool_calls,
        reasoning=effort if model.reasoning else None,
        store=False,
        include=("reasoning.encrypted_content",) if model.reasoning else (),
    )
    before = _Before(model=model.slug, instructions=key.instructions, stream=True)
    form = None
    if key.output_schema is not None:
        strict, schema = is_strict(key.output_schema), msgspec.Raw(key.output_schema)
        form = _Format(strict=strict, schema=schema, name="output_schema")
    settings = _Text(verbosity=key.verbosity, format=form)
    text = b"" if settings == _Text() else b',"text":' + to_json(settings)
    # The cache key goes between `after` and `text`; NUL, which JSON cannot hold, marks its place.
    return RequestHead(
        before=to_json(before)[:-1] + b',"input":[',
        after=b"]," + to_json(after)[1:-1] + b"\0" + text + b"}",
    )


def _compaction_head(key: HeadKey) -> RequestHead:
    """The head for `/responses/compact`: no stream, no answer settings, no cache key."""
    model = key.model
    effort = _Effort(effort=key.effort or model.default_effort)
    tools = tuple(encode_tool(tool, freeform=model.freeform_tools) for tool in key.tools)
    after = {
        "tools": tools if model.can_call_tools else (),
        "parallel_tool_calls": model.parallel_tool_calls,
        **({"reasoning": effort} if model.reasoning else {}),
    }
    before = to_json(_Before(model=model.slug, instructions=key.instructions))
    return RequestHead(before=before[:-1] + b',"input":[', after=b"]," + to_json(after)[1:])


class ResponsesStore(EncodedItemStore):
    """A growing buffer of JSON items, with the end position of each item.

    It makes no body with a partial answer: a last assistant message counts as finished on this
    wire, and models repeat or contradict it.
    """

    def clear(self) -> None:
        self._buffer = bytearray()
        self._ends: list[int] = []

    def append(self, item: AnyItem) -> None:
        if not _is_foreign(item):
            if self._buffer:
                self._buffer += b","
            self._buffer += self._encode(item)
        self._ends.append(len(self._buffer))

    def rewind(self, count: int) -> bool:
        del self._ends[count:]
        del self._buffer[self._ends[-1] if self._ends else 0 :]
        return True

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        head = self._heads.get(key)
        if key.compacts:
            return (head.before, bytes(self._buffer), head.after)
        after, _, text = head.after.partition(b"\0")
        own = b',"prompt_cache_key":' + to_json(cache_key)
        return (head.before, bytes(self._buffer), after, own, text)

    def _encode(self, item: AnyItem) -> bytes:
        match item:
            case Message(author=str(), content=content) if self._context.model.mail_role == "user":
                return to_json(text_message("user", text_of(content)))
            case Message(role=role, content=content, phase=phase):
                return to_json(Message(role=role, content=self._resolve(content), phase=phase))
            case Reasoning(summary=summary, encrypted_content=encrypted):
                texts = tuple(_SummaryText(text=text) for text in summary)
                return to_json(_Reasoning(summary=texts, encrypted_content=encrypted))
            case FunctionCall() | CustomToolCall() | Compaction():
                return to_json(item if item.id is None else msgspec.structs.replace(item, id=None))
            case FunctionCallOutput() | CustomToolCallOutput():
                output = item.output
                shown = output if isinstance(output, str) else self._resolve(output)
                return to_json(msgspec.structs.replace(item, output=shown, success=None))


def _is_foreign(item: AnyItem) -> bool:
    """Thinking that another wire signed, which this wire refuses."""
    sealed = item.encrypted_content if isinstance(item, Reasoning) else None
    return sealed is not None and sealed.startswith(SEAL)
