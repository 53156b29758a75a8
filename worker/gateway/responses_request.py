"""The request body of the Responses wire: items, head and tail as JSON bytes.

What agents share comes first, `instructions` as a field of its own. Fields that strict
servers reject (item ids, author, success, client metadata) are never sent. Mail from other agents
has the role user, unless the model's catalogue entry says that it was trained on another form.
"""

from typing import Literal

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.protocol.items import (
    AnyItem,
    Compaction,
    ContentPart,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Origin,
    ProviderItem,
    Reasoning,
    text_message,
    text_of,
)
from swarm.mailbox.protocol.sampling import ToolSpec

from .effort_choice import requested_effort
from .fit.item_fitting import own_fields
from .fit.neighbours import arrange_items
from .request_encoding import (
    SEAL,
    EncodedItemStore,
    HeadKey,
    RequestHead,
    encode_fields,
    is_strict,
    to_json,
    told_instructions,
)

LOCAL_CALL = "local_shell_call"  # a call of a tool that is never offered
_NOT_RUN = "not run: this tool was not offered"
_decode_fields = depth_checked(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode)
_decode_text = depth_checked(msgspec.json.Decoder(str).decode)


class _SummaryText(msgspec.Struct, tag_field="type", tag="summary_text"):
    text: str


class _ReasoningText(msgspec.Struct, tag_field="type", tag="reasoning_text"):
    text: str


class _Reasoning(msgspec.Struct, tag_field="type", tag="reasoning", omit_defaults=True):
    summary: tuple[_SummaryText, ...]
    encrypted_content: str | None
    content: tuple[_ReasoningText, ...] = ()


class _SystemMessage(msgspec.Struct, tag_field="type", tag="message"):
    content: tuple[ContentPart, ...]
    role: str = "system"


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


class _Head(msgspec.Struct, omit_defaults=True, kw_only=True):
    """All but the items and the cache key; unset fields are left out."""

    model: str
    instructions: str = ""
    stream: bool | None = None
    tools: tuple[_Function | _Custom, ...]
    tool_choice: str | msgspec.UnsetType = msgspec.UNSET
    parallel_tool_calls: bool
    reasoning: _Effort | msgspec.UnsetType | None = msgspec.UNSET
    store: bool | msgspec.UnsetType = msgspec.UNSET
    include: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    text: _Text | msgspec.UnsetType = msgspec.UNSET
    temperature: float | None = None
    top_p: float | None = None


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
    """Everything except the items and the fields of a single agent, which come last."""
    model = key.model
    tools = key.tools if model.can_call_tools else ()
    effort = _Effort(effort=requested_effort(model, key.effort))
    freeform = model.freeform_tools and key.dialect.custom_tools
    head = _Head(
        model=model.slug,
        instructions=told_instructions(key, "text", "text.format"),
        tools=tuple(encode_tool(tool, freeform=freeform) for tool in tools),
        parallel_tool_calls=model.parallel_tool_calls,
        reasoning=effort if model.reasoning else msgspec.UNSET,
    )
    if not key.compacts:  # `/responses/compact` takes no settings of an answer
        _add_answer_settings(head, key)
    before = encode_fields(head, key.dialect)
    return RequestHead(before=before[:-1] + b',"input":[', after=b"]")


def _add_answer_settings(head: _Head, key: HeadKey) -> None:
    head.stream, head.tool_choice, head.store = True, "auto", False
    head.include = ("reasoning.encrypted_content",) if key.model.reasoning else ()
    if isinstance(head.reasoning, _Effort):
        head.reasoning.summary = None if key.summary == "none" else key.summary
    else:
        head.reasoning = None
    form = None
    if key.output_schema is not None:
        strict, schema = is_strict(key.output_schema), msgspec.Raw(key.output_schema)
        form = _Format(strict=strict, schema=schema, name="output_schema")
    head.temperature, head.top_p = key.sampling.temperature, key.sampling.top_p
    if key.verbosity or form:
        head.text = _Text(verbosity=key.verbosity, format=form)


class ResponsesStore(EncodedItemStore):
    """A growing buffer of JSON items, with the end position of each item.

    It makes no body with a partial answer: a last assistant message counts as finished on this
    wire, and models repeat or contradict it.
    """

    def clear(self) -> None:
        super().clear()
        self._buffer = bytearray()
        self._ends: list[int] = []
        self._fitted: list[AnyItem | None] = []  # kept only for a server that arranges them

    def append(self, item: AnyItem) -> None:
        fitted = None if self._is_foreign(item) else self._fitter.fit(item)
        if self._dialect.arranges:
            self._fitted.append(fitted)
        elif encoded := b"" if fitted is None else self._encode(fitted):
            if self._buffer:
                self._buffer += b","
            self._buffer += encoded
        self._ends.append(len(self._buffer))

    def rewind(self, count: int) -> bool:
        del self._ends[count:]
        del self._fitted[count:]
        del self._buffer[self._ends[-1] if self._ends else 0 :]
        return True

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        head = self._heads.get(key)
        has_key = not key.compacts and "prompt_cache_key" not in self._dialect.refused_fields
        own = b',"prompt_cache_key":' + to_json(cache_key) if has_key else b""
        return (head.before, self._items_bytes(), head.after, own, b"}")

    def _items_bytes(self) -> bytes:
        if not self._dialect.arranges:
            return bytes(self._buffer)
        items = [item for item in self._fitted if item is not None]
        encoded = map(self._encode, arrange_items(items, self._dialect))
        return b",".join(item for item in encoded if item)

    def _is_foreign(self, item: AnyItem) -> bool:
        """An item of another provider, or thinking that another wire signed: this one refuses
        both.
        """
        if isinstance(item, ProviderItem):
            return item.provider != self._context.model.provider
        sealed = item.encrypted_content if isinstance(item, Reasoning) else None
        return sealed is not None and sealed.startswith(SEAL)

    def _encode(self, item: AnyItem) -> bytes:
        match item:
            case Message(author=str(), content=content) if self._context.model.mail_role == "user":
                return to_json(text_message("user", text_of(content)))
            case Message(role="developer", content=content) if not self._dialect.developer:
                return to_json(_SystemMessage(content=self._resolve(content)))
            case Message(role=role, content=content, phase=phase):
                phase = None if "phase" in self._dialect.left_out else phase
                return to_json(Message(role=role, content=self._resolve(content), phase=phase))
            case Reasoning(summary=summary, encrypted_content=encrypted):
                texts = tuple(_SummaryText(text=text) for text in summary)
                shown = item.content if item.origin and encrypted is None else ()
                raw = tuple(_ReasoningText(text=text) for text in shown)
                reasoning = _Reasoning(summary=texts, encrypted_content=encrypted, content=raw)
                return _with_fields(to_json(reasoning), item.origin)
            case FunctionCall() | CustomToolCall():
                bare = msgspec.structs.replace(item, id=None, origin=None)
                return _with_fields(to_json(bare), item.origin)
            case Compaction():
                return to_json(item if item.id is None else msgspec.structs.replace(item, id=None))
            case ProviderItem():
                return _provider_item(item)
            case FunctionCallOutput() | CustomToolCallOutput():
                output = item.output
                given = output if isinstance(output, str) else self._resolve(output)
                return to_json(msgspec.structs.replace(item, output=given, success=None))


def _with_fields(encoded: bytes, origin: Origin | None) -> bytes:
    """The item with the fields of it that only this provider understands."""
    if not (fields := own_fields(origin)):
        return encoded
    return encoded[:-1] + b"," + to_json(fields)[1:]


def _provider_item(item: ProviderItem) -> bytes:
    """The item without its id, which no provider finds again; a local call with the output that
    the wire requires. b"" for an item that cannot be read any more.
    """
    try:
        fields = _decode_fields(item.json)
        call_id = _decode_text(fields["call_id"]) if item.kind == LOCAL_CALL else None
    except (msgspec.DecodeError, KeyError):
        return b""
    encoded = to_json({name: raw for name, raw in fields.items() if name != "id"})
    if call_id is None:
        return encoded
    return encoded + b"," + to_json(FunctionCallOutput(call_id=call_id, output=_NOT_RUN))
