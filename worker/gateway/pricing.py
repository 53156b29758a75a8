"""The price of a response: tokens times the prices of the model's catalogue entry."""

from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.sampling import ModelInfo

_MILLION = 1_000_000


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
