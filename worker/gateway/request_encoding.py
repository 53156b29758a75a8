"""Request encoding shared by the HTTP wires: the head of a request, and the item store.

An item is encoded once, when it arrives; a body is a join of bytes. Nothing here iterates over a
history, and a head (instructions, tools, settings) is encoded once for all agents that share it.
"""

import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from swarm.mailbox.protocol.items import (
    AnyItem,
    Compaction,
    ContentPart,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Message,
    ProviderItem,
    Reasoning,
    text_of,
)
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.settings import SamplingSettings, Summary, Verbosity

from .fit.dialect import PLAIN, Dialect, known_dialect
from .fit.item_fitting import ItemFitter
from .fit.tool_schemas import fit_tools

to_json = msgspec.json.Encoder().encode
_decode_table = msgspec.json.Decoder(dict[str, object]).decode
_HEADS_KEPT = 16
NO_OUTPUT = "(no output: the call was interrupted)"
MAX_IMAGE_BYTES = 20 * 1024 * 1024
_BLOB = re.compile(r"blob:(?P<sha256>[0-9a-f]{64});(?P<mime>image/[a-z0-9.+-]{1,40})\Z")

SEAL = "messages."


class HeadKey(msgspec.Struct, frozen=True):
    """Everything that a head depends on; equal keys have equal heads."""

    model: ModelInfo
    instructions: str
    tools: tuple[ToolSpec, ...] = ()
    effort: str | None = None
    output_schema: bytes | None = None
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    compacts: bool = False  # the body of the provider's own compaction
    sampling: SamplingSettings = SamplingSettings()
    dialect: Dialect = PLAIN  # what the server takes


def encode_fields(head: msgspec.Struct, dialect: Dialect) -> bytes:
    """The fields of a head as a JSON object, without those that the server refused."""
    data = to_json(head)
    if not dialect.refused_fields:
        return data
    table = _decode_table(data)
    for path in dialect.refused_fields:
        name, _, inner = path.partition(".")
        if not inner:
            table.pop(name, None)
        elif isinstance(value := table.get(name), dict):
            cast("dict[str, object]", value).pop(inner, None)
        elif isinstance(value, list):
            for entry in cast("list[object]", value):
                if isinstance(entry, dict):
                    cast("dict[str, object]", entry).pop(inner, None)
    return to_json(table)


_SCHEMA_TEXT = (
    "Your final answer must be one JSON value that fits this JSON schema. Write nothing before or "
    "after it, and no code fence:\n"
)


def schema_text(schema: bytes) -> str:
    """What tells a model of a schema where its server does not enforce it."""
    return _SCHEMA_TEXT + schema.decode("utf-8", "replace")


def told_instructions(key: HeadKey, *fields: str) -> str:
    """The instructions, with the schema of the answer if the server refused its field."""
    if key.output_schema is None or key.dialect.refused_fields.isdisjoint(fields):
        return key.instructions
    return f"{key.instructions}\n\n{schema_text(key.output_schema)}".strip()


def is_strict(schema: bytes) -> bool:
    """True if this JSON schema may be enforced strictly.

    Some providers refuse a schema, and with it the whole request, if an object has optional or open
    properties.
    """
    try:
        return _is_closed(msgspec.json.decode(schema))
    except (msgspec.DecodeError, RecursionError):
        return False


def _is_closed(node: object) -> bool:
    if isinstance(node, list):
        return all(map(_is_closed, cast("list[object]", node)))
    if not isinstance(node, dict):
        return True
    table = cast("dict[str, object]", node)
    properties, required = table.get("properties"), table.get("required", [])
    if isinstance(properties, dict):
        named = cast("list[object]", required) if isinstance(required, list) else []
        all_named = all(name in named for name in cast("dict[str, object]", properties))
        if not all_named or table.get("additionalProperties") is not False:
            return False
    return all(map(_is_closed, table.values()))


class RequestHead(msgspec.Struct, frozen=True):
    """The bytes before and after the items."""

    before: bytes
    after: bytes


class RequestHeadCache:
    """The most recent heads. Agents of one role share theirs."""

    def __init__(self, make: Callable[[HeadKey], RequestHead]) -> None:
        self._make = make
        self._kept: list[tuple[HeadKey, RequestHead]] = []  # newest last

    def get(self, key: HeadKey) -> RequestHead:
        """The head of this key; it is encoded only if no recent key is equal."""
        for place in range(len(self._kept) - 1, -1, -1):
            kept, head = self._kept[place]
            if kept == key:
                return head
        tools = fit_tools(key.tools, key.dialect)
        head = self._make(msgspec.structs.replace(key, tools=tools))
        self._kept.append((key, head))
        del self._kept[:-_HEADS_KEPT]
        return head


class EncodingContext(msgspec.Struct, frozen=True):
    """What the encoding of an item depends on, besides the item."""

    blobs_dir: Path
    model: ModelInfo
    tolerant: bool = False  # a local server: its chat template may reject unusual roles
    dialect: Dialect | None = None  # what the server takes; None: what is known of the model

    @property
    def takes(self) -> Dialect:
        """What the server takes."""
        return self.dialect or known_dialect(self.model.slug)


class ItemStore(ABC):
    """The items of one conversation, encoded for one wire."""

    @abstractmethod
    def append(self, item: AnyItem) -> None:
        """Add one item and encode it now."""

    @abstractmethod
    def rewind(self, count: int) -> bool:
        """Keep only the first `count` items; False if that is impossible (nothing changed)."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all items."""

    def items(self) -> tuple[AnyItem, ...]:
        """The items, if the wire keeps them; else ()."""
        return ()

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        """The parts of a request's body; () for a wire without bodies."""
        return ()

    def with_partial(self, key: HeadKey, cache_key: str, text: str) -> tuple[bytes, ...]:
        """The body with a partial assistant message at its end, which the model continues; () if
        the wire has no such body. The store keeps nothing of it.
        """
        return ()

    def change_dialect(self, dialect: Dialect) -> bool:
        """Encode for another dialect from now on; True: the items must be appended again."""
        return False

    def without_schema(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        """The body without the schema that holds calls to their form, from now on; () if there is
        none.
        """
        return ()

    def without_thinking(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        """The body without signed thinking, from now on; () if there is none."""
        return ()


class UnencodedItemStore(ItemStore):
    """For a script, which reads the items themselves."""

    def __init__(self) -> None:
        self._items: list[AnyItem] = []

    def append(self, item: AnyItem) -> None:
        self._items.append(item)

    def rewind(self, count: int) -> bool:
        del self._items[count:]
        return True

    def clear(self) -> None:
        self._items.clear()

    def items(self) -> tuple[AnyItem, ...]:
        return tuple(self._items)


class EncodedItemStore(ItemStore):
    """For the HTTP wires: every item is fitted and encoded when it is appended, and not kept."""

    def __init__(self, context: EncodingContext, heads: RequestHeadCache) -> None:
        self._context, self._heads = context, heads
        self.clear()

    def clear(self) -> None:
        self._fitter = ItemFitter(self._context.model, self._context.takes)

    def change_dialect(self, dialect: Dialect) -> bool:
        if dialect == self._context.takes:
            return False
        self._context = msgspec.structs.replace(self._context, dialect=dialect)
        self.clear()
        return True

    @property
    def _dialect(self) -> Dialect:
        return self._context.takes

    def _resolve(self, content: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
        """The content with its images as the provider reads them."""
        context = self._context
        return resolve_images(
            content,
            blobs_dir=context.blobs_dir,
            model_sees=context.model.image_input and self._dialect.images,
        )


class GroupedItemStore(EncodedItemStore):
    """For wires on which the outputs of calls directly follow the message with the calls.

    Messages that come between calls and outputs are put after the outputs. What a server received
    cannot be separated again, so such a store rewinds to nothing but its end.
    """

    def clear(self) -> None:
        super().clear()
        self._count = 0

    def rewind(self, count: int) -> bool:
        return count == self._count

    def append(self, item: AnyItem) -> None:
        self._count += 1
        if (fitted := self._fitter.fit(item)) is not None:
            self._append_fitted(fitted)

    def _append_fitted(self, item: AnyItem) -> None:
        match item:
            case Message(role="developer") if self._is_at_start:
                self._add_leading(text_of(item.content))
            case Message(role="assistant", author=None):
                self._add_answer_text(text_of(item.content))
            case Message():
                self._add_message(item)
            case Reasoning():
                self._add_reasoning(item)
            case FunctionCall():
                self._add_call(item)
            case CustomToolCall(call_id=call_id, name=name, input=text):
                arguments = to_json({"input": text}).decode()
                origin = item.origin
                call = FunctionCall(call_id=call_id, name=name, arguments=arguments, origin=origin)
                self._add_call(call)
            case FunctionCallOutput() | CustomToolCallOutput():
                self._add_output(item)
            case Compaction() | ProviderItem():
                pass  # of a provider on another wire; no server here could read it

    @property
    @abstractmethod
    def _is_at_start(self) -> bool:
        """True until the first item that is no developer message."""

    @abstractmethod
    def _add_leading(self, text: str) -> None:
        """Add a developer message at the start, which belongs to the system prompt."""

    @abstractmethod
    def _add_answer_text(self, text: str) -> None: ...
    @abstractmethod
    def _add_message(self, item: Message) -> None: ...
    @abstractmethod
    def _add_reasoning(self, item: Reasoning) -> None: ...
    @abstractmethod
    def _add_call(self, call: FunctionCall) -> None: ...
    @abstractmethod
    def _add_output(self, item: FunctionCallOutput | CustomToolCallOutput) -> None: ...


def resolve_image(part: InputImage, *, blobs_dir: Path, model_sees: bool) -> ContentPart:
    """The part as a provider reads it; a text instead if there is no image to show."""
    if not model_sees:
        return InputText(text="[an image was here; this model reads no images]")
    if part.image_url.startswith("https://"):
        return part
    found = _BLOB.match(part.image_url)
    if found is None:
        return InputText(text="[an image was here; its reference is not valid]")
    try:
        with (blobs_dir / found["sha256"]).open("rb") as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
    except OSError:
        return InputText(text="[an image was here; it is no longer stored]")
    if len(data) > MAX_IMAGE_BYTES:
        return InputText(text="[an image was here; it is too large to be sent]")
    url = f"data:{found['mime']};base64,{base64.b64encode(data).decode('ascii')}"
    return msgspec.structs.replace(part, image_url=url)


def resolve_images(
    content: tuple[ContentPart, ...], *, blobs_dir: Path, model_sees: bool
) -> tuple[ContentPart, ...]:
    """All parts with images resolved; the same tuple object if there are none."""
    if not any(isinstance(part, InputImage) for part in content):
        return content
    return tuple(
        resolve_image(part, blobs_dir=blobs_dir, model_sees=model_sees)
        if isinstance(part, InputImage)
        else part
        for part in content
    )


class Thinking(msgspec.Struct, tag_field="type", tag="thinking"):
    """A thinking block of the wire."""

    thinking: str
    signature: str


class RedactedThinking(msgspec.Struct, tag_field="type", tag="redacted_thinking"):
    """A block that only its server can read."""

    data: str


def seal_block(block: Thinking | RedactedThinking, *, slug: str, item_id: str) -> Reasoning:
    """The block as an item of the history."""
    match block:
        case Thinking(thinking=text, signature=signature):
            sealed = f"{SEAL}thinking;{slug};{signature}"
            return Reasoning(content=(text,) if text else (), encrypted_content=sealed, id=item_id)
        case RedactedThinking(data=data):
            return Reasoning(encrypted_content=f"{SEAL}redacted;{slug};{data}", id=item_id)


def unseal_block(item: Reasoning, *, slug: str) -> Thinking | RedactedThinking | None:
    """The original block; None if it is not this model's."""
    sealed = item.encrypted_content or ""
    kind, _, rest = sealed.removeprefix(SEAL).partition(";")
    owner, _, data = rest.partition(";")
    is_unsigned = not data and item.origin is not None  # its server signs nothing
    if not sealed.startswith(SEAL) or owner != slug or not (data or is_unsigned):
        return None
    if kind == "redacted":
        return RedactedThinking(data=data)
    return Thinking(thinking="".join(item.content), signature=data)
