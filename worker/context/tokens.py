"""Estimating tokens without a tokenizer, and the running count of what fills the window.

Rule guarded: nothing here looks at an item twice; each adds its estimate when it is recorded.
"""

from swarm.mailbox.protocol.items import (
    AnyItem,
    Compaction,
    CustomToolCallOutput,
    FunctionCallOutput,
    InputImage,
    Message,
    Reasoning,
    TokenUsage,
)

BYTES_PER_TOKEN = 4
IMAGE_BYTES = 7_373  # what one image of default detail costs, as bytes of text
_ENCRYPTION_BYTES = 650  # the envelope of encrypted reasoning


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


class Meter:
    """Tokens used in this life and all before, and tokens now in the window."""

    def __init__(self, total: TokenUsage) -> None:
        self.total = total
        self.last = TokenUsage()
        self._reported = 0  # the window at the last response, as the server counted it
        self._since = 0  # estimates of what was recorded after it

    def add_item(self, tokens: int) -> None:
        """An item joined the history."""
        self._since += tokens

    def add_response(self, usage: TokenUsage | None) -> None:
        """A response ended. Without usage the counters stay as they are."""
        if usage is None:
            return
        self.total = self.total.plus(usage)
        self.last = usage
        self._reported, self._since = usage.total_tokens, 0

    @property
    def context_tokens(self) -> int:
        """What the next request will hold, as far as is known."""
        return self._reported + self._since
