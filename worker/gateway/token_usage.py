"""Token counts as the wires report them, and the price of a response.

Counts are not part of the answer: those that cannot be read are left out, and the answer stays.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.sampling import ModelInfo

Counts = TypeVar("Counts")
_MILLION = 1_000_000


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    """`usage` of the Responses and the Chat Completions wire, which name the counts differently."""

    input_tokens: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _Details | None = None
    prompt_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class MessagesUsage(msgspec.Struct):
    """`usage` of the Messages wire: totals so far."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def add(self, raw: msgspec.Raw) -> None:
        """Take over the counts of an event; a count that it leaves out does not change."""
        usage = _decode_counts(_decode_messages, raw)
        for name in self.__struct_fields__:
            if usage is not None and (value := getattr(usage, name)) is not None:
                setattr(self, name, value)

    def total(self) -> TokenUsage:
        """Input tokens here include the cached ones; on the wire the two are separate."""
        read, written = self.cache_read_input_tokens or 0, self.cache_creation_input_tokens or 0
        output = self.output_tokens or 0
        whole = (self.input_tokens or 0) + read + written
        return TokenUsage(
            input_tokens=whole,
            cached_input_tokens=read,
            cache_write_input_tokens=written,
            output_tokens=output,
            total_tokens=whole + output,
        )


_decode_usage = depth_checked(msgspec.json.Decoder(_Usage | None, strict=False).decode)
_decode_messages = depth_checked(msgspec.json.Decoder(MessagesUsage | None, strict=False).decode)


def _decode_counts(
    decode: Callable[[msgspec.Raw], Counts | None], raw: msgspec.Raw
) -> Counts | None:
    """The counts; some servers write them as text, or as 12.0."""
    try:
        return decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def read_usage(raw: msgspec.Raw) -> TokenUsage | None:
    """A `usage` object of the Responses or the Chat Completions wire; None for anything else."""
    usage = _decode_counts(_decode_usage, raw)
    if usage is None:
        return None
    read = usage.input_tokens_details or usage.prompt_tokens_details or _Details()
    made = usage.output_tokens_details or usage.completion_tokens_details or _Details()
    sent = usage.input_tokens or usage.prompt_tokens or 0
    received = usage.output_tokens or usage.completion_tokens or 0
    return TokenUsage(
        input_tokens=sent,
        cached_input_tokens=read.cached_tokens or 0,
        output_tokens=received,
        reasoning_output_tokens=made.reasoning_tokens or 0,
        total_tokens=usage.total_tokens or sent + received,
    )


def price_usd(usage: TokenUsage, model: ModelInfo) -> float | None:
    """The price in dollars; None if a price that is needed is unknown.

    Tokens read from or written to a cache are part of the input; if they have no price of their
    own, they cost the same. Reasoning tokens are part of the output.
    """
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    written = min(usage.cache_write_input_tokens, usage.input_tokens - cached)
    fresh = usage.input_tokens - cached - written
    price_in, price_out = model.input_usd_per_million, model.output_usd_per_million
    if (price_in is None and usage.input_tokens) or (price_out is None and usage.output_tokens):
        return None
    price_cached = model.cached_usd_per_million
    if price_cached is None:
        price_cached = price_in
    price_written = model.cache_write_usd_per_million
    if price_written is None:
        price_written = price_in
    total = fresh * (price_in or 0.0) + cached * (price_cached or 0.0)
    total += written * (price_written or 0.0)
    return (total + usage.output_tokens * (price_out or 0.0)) / _MILLION
