"""Token estimates without a tokenizer, and the running count of tokens in the window.

No item is measured twice: its estimate is added when the item is recorded.
"""

import msgspec

from swarm.mailbox.protocol.context_sizes import HeadSizes
from swarm.mailbox.protocol.events import TokenCount
from swarm.mailbox.protocol.items import (
    AnyItem,
    Compaction,
    CustomToolCallOutput,
    FunctionCallOutput,
    InputImage,
    Message,
    Reasoning,
    TokenUsage,
    encode_item,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import ContextRules

FULL_PERCENT = 90  # of the window: a fuller history is compacted
BYTES_PER_TOKEN = 4
IMAGE_BYTES = 7_373  # cost of one image of default detail, in bytes of text
_ENCRYPTION_BYTES = 650  # the envelope of encrypted reasoning
_MIN_CALIBRATION_TOKENS = 1_000  # smallest request that calibrates the estimate
_MIN_RATIO, _MAX_RATIO = 0.5, 4.0


def estimate_tokens(size_bytes: int) -> int:
    """Return the tokens of so many UTF-8 bytes: a quarter, rounded up."""
    return -(-size_bytes // BYTES_PER_TOKEN)


def estimate_item(item: AnyItem, *, encoded_bytes: int) -> int:
    """Estimate the tokens of one item from the length of its encoding.

    Encrypted reasoning counts by its decrypted length; an image costs the same whatever its size.

    Source: Codex `context_manager/history.rs`; differs in that the length is that of msgpack, which
    exists already, and not of JSON (a few per cent less).
    """
    match item:
        case Reasoning(encrypted_content=str(sealed)) | Compaction(encrypted_content=sealed):
            return estimate_tokens(max(0, len(sealed) * 3 // 4 - _ENCRYPTION_BYTES))
        case Message(content=parts):
            images = sum(isinstance(part, InputImage) for part in parts)
        case FunctionCallOutput(output=tuple(parts)) | CustomToolCallOutput(output=tuple(parts)):
            images = sum(isinstance(part, InputImage) for part in parts)
        case _:
            images = 0
    return estimate_tokens(encoded_bytes + images * IMAGE_BYTES)


def measure_item(item: AnyItem) -> int:
    """Estimate the tokens of an item that is not encoded yet."""
    return estimate_item(item, encoded_bytes=len(encode_item(item)))


class TokenMeter:
    """Counts the tokens used by this process and all before, and the tokens now in the window.

    Estimates are calibrated by the server's count for the latest whole request: non-English text
    costs more than a token per four bytes.
    """

    def __init__(self, total: TokenUsage) -> None:
        self.total = total
        self._unreported = TokenUsage()  # the part of `total` that no TokenCount has reported
        self.head_tokens = 0  # estimate of instructions and tools
        self._items = 0  # estimates of all items
        self._request_tokens = 0  # estimate of the running request, with instructions and tools
        self._ratio = 1.0
        self._window_at_response = 0  # the window at the last response, as the server counted it
        self._since = 0  # estimates of items recorded after it
        self._head: HeadSizes | None = None  # of the running request
        self._reported_head: HeadSizes | None = None

    def add_item(self, tokens: int) -> None:
        """Add the estimate of an item that joined the history."""
        self._items += tokens
        self._since += tokens

    def note_request(self, head: HeadSizes | None = None) -> None:
        """Note that a request with all items and this head is sent."""
        self._head = head or self._head
        self._request_tokens = self.head_tokens + self._items

    def add_response(self, usage: TokenUsage | None) -> None:
        """Add a response's usage. Without usage nothing changes; without a token total only the
        sums do.
        """
        if usage is None:
            return
        self.add_side_response(usage)
        if not usage.total_tokens:
            return
        if self._request_tokens >= _MIN_CALIBRATION_TOKENS and usage.input_tokens:
            ratio = usage.input_tokens / self._request_tokens
            self._ratio = min(_MAX_RATIO, max(_MIN_RATIO, ratio))
        self._window_at_response, self._since = usage.total_tokens, 0

    def add_side_response(self, usage: TokenUsage) -> None:
        """Add the usage of a response that is not part of the history."""
        self.total = self.total.plus(usage)
        self._unreported = self._unreported.plus(usage)

    def take_count(self, turn_id: str, model: ModelInfo | None) -> TokenCount:
        """Return the current counts. `last` is the usage since the previous count, so that all
        `last` values add up to `total`.
        """
        last, self._unreported = self._unreported, TokenUsage()
        window = None if model is None else usable_window(model)
        head = None if self._head == self._reported_head else self._head
        self._reported_head = self._head
        return TokenCount(
            turn_id=turn_id,
            last=last,
            total=self.total,
            context_tokens=self.context_tokens,
            context_window=window or 0,
            head=head,
        )

    def start_over(self, tokens: int) -> None:
        """The history was replaced; `tokens` is its estimate."""
        self._items, self._window_at_response, self._since = tokens, 0, 0

    def calibrated(self, tokens: int) -> int:
        """Convert an estimate to the server's count."""
        return round(tokens * self._ratio)

    def uncalibrated(self, tokens: int) -> int:
        """Convert a server's count to an estimate: the inverse of `calibrated`."""
        return round(tokens / self._ratio)

    @property
    def context_tokens(self) -> int:
        """Tokens that the next request will hold, as far as known."""
        if self._window_at_response:
            return self._window_at_response + self.calibrated(self._since)
        return self.calibrated(self.head_tokens + self._items)


def with_configured_window(model: ModelInfo, rules: ContextRules) -> ModelInfo:
    """Return the model with the configured context window, if one is configured."""
    if rules.window_tokens is None:
        return model
    return msgspec.structs.replace(model, context_window=rules.window_tokens)


def usable_window(model: ModelInfo) -> int | None:
    """Return the tokens that a request may hold; None if the window is unknown."""
    tokens = model.context_window * model.effective_context_percent // 100
    return tokens if tokens > 0 else None


def compaction_limit(model: ModelInfo, rules: ContextRules) -> int | None:
    """Return the tokens from which a history is compacted; None: never automatically.

    The smaller of the configured limit (else the catalogue's) and 90 % of the window.

    Source: Codex `model_auto_compact_token_limit`.
    """
    wanted = rules.compact_tokens or model.auto_compact_tokens
    full = model.context_window * FULL_PERCENT // 100
    bounds = [bound for bound in (wanted, full) if bound is not None and bound > 0]
    return min(bounds, default=None)
