"""Which requests to the embedded model are answered side by side: those that share its cache.

The key-value cache has room for one whole conversation. Short ones fit into it together; one that
needs more waits until there is room, because the library fails all requests of a full cache.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

_BYTES_PER_TOKEN = 3  # of a request's body; program text and English have more, so this is careful
_BYTES_AFTER_OVERFLOW = 1  # no text has less


class CacheShares:
    """Shares of the cache, given in the order in which they were asked for.

    Args:
        total_tokens: Room of the cache; no share is larger.
        most_requests: Number of requests that are answered side by side.
    """

    def __init__(self, total_tokens: int, most_requests: int) -> None:
        self.total_tokens, self._most = max(1, total_tokens), most_requests
        self._held_tokens, self.holders = 0, 0
        self._bytes_per_token = _BYTES_PER_TOKEN
        self._front = trio.Lock()  # fair: who holds it is the next one
        self._freed = trio.Event()

    def need_tokens(self, body_bytes: int, answer_tokens: int) -> int:
        """An upper estimate of what a request and its answer take."""
        return min(self.total_tokens, body_bytes // self._bytes_per_token + 1 + answer_tokens)

    def note_overflow(self) -> None:
        """An estimate was too low: the texts of this run have more tokens than usual."""
        self._bytes_per_token = _BYTES_AFTER_OVERFLOW

    @asynccontextmanager
    async def share(self, tokens: int) -> AsyncIterator[None]:
        """Hold so many tokens, at most all, within the block. Waits until they are free."""
        tokens = min(tokens, self.total_tokens)
        async with self._front:
            while self.holders >= self._most or self._held_tokens + tokens > self.total_tokens:
                self._freed = trio.Event()
                await self._freed.wait()
            self.holders += 1
            self._held_tokens += tokens
        try:
            yield
        finally:
            self.holders -= 1
            self._held_tokens -= tokens
            self._freed.set()
