"""Conversation items, shaped as in the Responses API.

Images are never inline: `InputImage.image_url` is a `blob:<sha256>;<mime>` reference into the run's
folder (or an `https:` address that a person gave). The gateway reads the bytes when it renders.
"""

from typing import Literal

import msgspec

from .values.base import Tagged, Value


class InputText(Tagged):
    text: str


class OutputText(Tagged):
    text: str


class InputImage(Tagged):
    image_url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


ContentPart = InputText | OutputText | InputImage
Phase = Literal["commentary", "final_answer"]


class Message(Tagged):
    role: Literal["developer", "user", "assistant"]
    content: tuple[ContentPart, ...]
    phase: Phase | None = None
    id: str | None = None
    author: str | None = None  # path of the agent that sent it as mail; not sent to models


class Origin(Value):
    """Which model wrote an item, and the fields of it that only its provider understands.

    They go back to that provider and model unchanged, and to no other one.
    """

    provider: str
    model: str
    fields: str = ""  # a JSON object; null stands for the item's own text


class Reasoning(Tagged):
    summary: tuple[str, ...] = ()
    content: tuple[str, ...] = ()  # raw reasoning text, if the provider shows it
    encrypted_content: str | None = None
    id: str | None = None
    origin: Origin | None = None


class FunctionCall(Tagged):
    call_id: str
    name: str
    arguments: str  # JSON as text, exactly as the model wrote it
    id: str | None = None
    origin: Origin | None = None


class CustomToolCall(Tagged):
    call_id: str
    name: str
    input: str
    id: str | None = None
    origin: Origin | None = None


class FunctionCallOutput(Tagged):
    call_id: str
    output: str | tuple[ContentPart, ...]
    success: bool | None = None  # not sent to models


class CustomToolCallOutput(Tagged):
    call_id: str
    output: str | tuple[ContentPart, ...]
    success: bool | None = None


class Compaction(Tagged):
    """A provider's opaque replacement of the items before it; sent back unchanged."""

    encrypted_content: str
    id: str | None = None


class ProviderItem(Tagged):
    """An item of a kind that only its provider knows, such as `web_search_call`; sent back to that
    provider as it came.
    """

    kind: str
    provider: str  # id of the provider that sent it
    json: str  # the whole item
    id: str | None = None


AnyCall = FunctionCall | CustomToolCall
AnyOutput = FunctionCallOutput | CustomToolCallOutput
AnyItem = (
    Message
    | Reasoning
    | FunctionCall
    | CustomToolCall
    | FunctionCallOutput
    | CustomToolCallOutput
    | Compaction
    | ProviderItem
)


class TokenUsage(Value):
    """Tokens of one response, or a sum of many.

    `input_tokens` includes tokens read from a cache and tokens written to one.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0
    cache_write_input_tokens: int = 0

    def plus(self, other: "TokenUsage") -> "TokenUsage":
        """The element-wise sum."""
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_output_tokens=self.reasoning_output_tokens + other.reasoning_output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            cache_write_input_tokens=self.cache_write_input_tokens + other.cache_write_input_tokens,
        )


# called once per item; the bytes are then reused as `Raw`
encode_item = msgspec.msgpack.Encoder().encode
decode_item = msgspec.msgpack.Decoder(AnyItem).decode


def text_message(role: Literal["developer", "user", "assistant"], *texts: str) -> Message:
    """A message of plain text parts, of the part type that the role requires."""
    part = OutputText if role == "assistant" else InputText
    return Message(role=role, content=tuple(part(text=text) for text in texts))


def text_of(content: str | tuple[ContentPart, ...]) -> str:
    """All text of a content, joined by newlines, without images."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if not isinstance(part, InputImage))
