"""Fit the items of a conversation to who receives them, one after the other. Pure.

What holds on every wire: names, ids and arguments in a form that every server takes, and the fields
that only one provider understands to that provider alone. A history that holds a bad name, id or
argument is sent like any other, also after a resume or to another provider.
"""

import msgspec

from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Origin,
    Reasoning,
)
from swarm.mailbox.protocol.sampling import ModelInfo

from .call_ids import is_portable_id, is_short_id, short_id
from .call_names import MAX_NAME_CHARS, wire_name
from .dialect import Dialect

NO_OUTPUT = "(no output)"  # several servers refuse a message that says nothing
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_BAD_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)


def object_text(arguments: str) -> str:
    """The arguments as the JSON object that servers require; other text is wrapped in one."""
    text = arguments.strip()
    if text in {"", "null"}:
        return "{}"
    if _is_object(text):
        return text
    if text.startswith('"'):  # an object that was encoded twice
        try:
            inner = _decode_text(text).strip()
        except _BAD_JSON:
            inner = ""
        if _is_object(inner):
            return inner
    return _encode({"unreadable_arguments": arguments}).decode()


def _is_object(text: str) -> bool:
    try:
        _decode_object(text.encode())
    except _BAD_JSON:
        return False
    return True


def is_own(origin: Origin | None, model: ModelInfo) -> bool:
    """True if this model of this provider wrote the item."""
    return origin is not None and (origin.provider, origin.model) == (model.provider, model.slug)


class ItemFitter:
    """The items of one conversation, in their order."""

    def __init__(self, model: ModelInfo, dialect: Dialect) -> None:
        self._model, self._dialect = model, dialect
        self._ids: dict[str, str] = {}  # of the latest call with this id, as it is sent
        self._sent: set[str] = set()

    def fit(self, item: AnyItem) -> AnyItem | None:
        """The item as it is sent; None if it says nothing to who receives it."""
        match item:
            case FunctionCall():
                return self._call(item, object_text(item.arguments))
            case CustomToolCall() if not self._dialect.custom_tools:
                arguments = _encode({"input": item.input}).decode()
                call = FunctionCall(
                    call_id=item.call_id, name=item.name, arguments=arguments, origin=item.origin
                )
                return self._call(call, arguments)
            case CustomToolCall():
                return msgspec.structs.replace(
                    item,
                    name=wire_name(item.name),
                    call_id=self._new_id(item.call_id, item.origin),
                    origin=self._kept(item.origin),
                )
            case CustomToolCallOutput() if not self._dialect.custom_tools:
                call_id = self._ids.get(item.call_id, item.call_id)
                output = item.output or NO_OUTPUT
                return FunctionCallOutput(call_id=call_id, output=output, success=item.success)
            case FunctionCallOutput() | CustomToolCallOutput():
                call_id = self._ids.get(item.call_id, item.call_id)
                output = item.output if item.output not in {"", ()} else NO_OUTPUT
                if (call_id, output) == (item.call_id, item.output):
                    return item
                return msgspec.structs.replace(item, call_id=call_id, output=output)
            case Reasoning(origin=Origin()):
                return self._reasoning(item)
            case _:
                return item

    def _call(self, item: FunctionCall, arguments: str) -> FunctionCall:
        return msgspec.structs.replace(
            item,
            name=wire_name(item.name),
            arguments=arguments,
            call_id=self._new_id(item.call_id, item.origin),
            origin=self._kept(item.origin),
        )

    def _new_id(self, call_id: str, origin: Origin | None) -> str:
        """The id that this call is sent with: never that of an earlier call."""
        sent, attempt = self._fit_id(call_id, origin), 0
        while sent in self._sent:
            sent, attempt = short_id(call_id, attempt=attempt), attempt + 1
        self._sent.add(sent)
        self._ids[call_id] = sent
        return sent

    def _fit_id(self, call_id: str, origin: Origin | None) -> str:
        if self._dialect.short_ids:
            return call_id if is_short_id(call_id) else short_id(call_id)
        is_own_id = origin is not None and origin.provider == self._model.provider
        if self._model.wire == "messages" and len(call_id) <= MAX_NAME_CHARS:
            return wire_name(call_id)  # of these signs alone, on this wire
        return call_id if is_portable_id(call_id) or (is_own_id and call_id) else short_id(call_id)

    def _reasoning(self, item: Reasoning) -> Reasoning | None:
        """Reasoning goes back to its own model; sealed reasoning to its own provider."""
        if not self._dialect.returns_fields:
            return None
        if is_own(item.origin, self._model):
            return msgspec.structs.replace(item, origin=self._kept(item.origin))
        is_sealed = item.encrypted_content is not None and item.origin is not None
        if is_sealed and item.origin is not None and item.origin.provider == self._model.provider:
            return msgspec.structs.replace(item, content=(), origin=None)
        return None

    def _kept(self, origin: Origin | None) -> Origin | None:
        """The origin with the fields that go back; None for what another model wrote."""
        if origin is None or not is_own(origin, self._model):
            return None
        if not self._dialect.returns_fields or not origin.fields:
            return msgspec.structs.replace(origin, fields="")
        fields = own_fields(origin)
        kept = {name: raw for name, raw in fields.items() if name not in self._dialect.left_out}
        return msgspec.structs.replace(origin, fields=_encode(kept).decode() if kept else "")


def own_fields(origin: Origin | None) -> dict[str, msgspec.Raw]:
    """The fields that go back with an item, by name."""
    if origin is None or not origin.fields:
        return {}
    try:
        return _decode_object(origin.fields)
    except _BAD_JSON:
        return {}
