"""Estimating tokens without a tokenizer, and the running count of what fills the window.

Rule guarded: nothing here looks at an item twice; each adds its estimate when it is recorded.
"""

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

from .context_limits import usable_window

BYTES_PER_TOKEN = 4
IMAGE_BYTES = 7_373  # what one image of default detail costs, as bytes of text
_ENCRYPTION_BYTES = 650  # the envelope of encrypted reasoning
_MIN_CALIBRATION_TOKENS = 1_000  # tokens of a request from which the estimate is calibrated
_MIN_RATIO, _MAX_RATIO = 0.5, 4.0


def estimate_tokens(size_bytes: int) -> int:
    """Tokens of so many UTF-8 bytes: a quarter, rounded up."""
    return -(-size_bytes // BYTES_PER_TOKEN)


def estimate_item(item: AnyItem, *, encoded_bytes: int) -> int:
    """Tokens of one item, from the length of its encoding.

    Encrypted reasoning counts as what was encrypted; an image costs the same whatever its size.

    Source: Codex `context_manager/history.rs`; differs in that the length is that of msgpack,
    which is there already, not of JSON (a few per cent less).
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
    """The estimate of an item that is not encoded yet."""
    return estimate_item(item, encoded_bytes=len(encode_item(item)))


class TokenMeter:
    """Tokens used in this life and all before, and tokens now in the window.

    Estimates are calibrated by what the server counted for the latest request as a whole: text that
    is no English costs more than a token for four bytes.
    """

    def __init__(self, total: TokenUsage) -> None:
        self.total = total
        self._unreported = TokenUsage()  # the part of it that no count has told
        self.head_tokens = 0  # estimate of instructions and tools
        self._items = 0  # estimates of all items
        self._request_tokens = 0  # the same when the running request was sent, with the head
        self._ratio = 1.0
        self._window_at_response = 0  # the window at the last response, as the server counted it
        self._since = 0  # estimates of what was recorded after it

    def add_item(self, tokens: int) -> None:
        """An item joined the history."""
        self._items += tokens
        self._since += tokens

    def note_request(self) -> None:
        """A request goes out that holds all items."""
        self._request_tokens = self.head_tokens + self._items

    def add_response(self, usage: TokenUsage | None) -> None:
        """A response ended. Without a count all but the sums stays as it is."""
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
        """A response that is no part of the history was paid for."""
        self.total = self.total.plus(usage)
        self._unreported = self._unreported.plus(usage)

    def take_count(self, turn_id: str, model: ModelInfo | None) -> TokenCount:
        """How things stand. `last` is what was paid for since the count before, if anything was:
        all of them add up to `total`.
        """
        last, self._unreported = self._unreported, TokenUsage()
        window = None if model is None else usable_window(model)
        return TokenCount(
            turn_id=turn_id,
            last=last,
            total=self.total,
            context_tokens=self.context_tokens,
            context_window=window or 0,
        )

    def start_over(self, tokens: int) -> None:
        """The history is another one now, of this estimate."""
        self._items, self._window_at_response, self._since = tokens, 0, 0

    def calibrated(self, tokens: int) -> int:
        """What an estimate comes to by the server's counting."""
        return round(tokens * self._ratio)

    def uncalibrated(self, tokens: int) -> int:
        """The estimate that comes to so many tokens: the inverse of `calibrated`."""
        return round(tokens / self._ratio)

    @property
    def context_tokens(self) -> int:
        """What the next request will hold, as far as is known."""
        if self._window_at_response:
            return self._window_at_response + self.calibrated(self._since)
        return self.calibrated(self.head_tokens + self._items)
