"""Keeps long texts of MCP results in the run's folder, and reads them by their address.

Known secrets are redacted before a text is stored. An address is the hash of what is stored, so
whoever has one was shown the text or was told of it by an agent that was.
"""

import hashlib
import os
import re
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.mcp import McpOutcome, McpText, ReadMcpResult
from swarm.mailbox.protocol.requests import RequestRefused

MAX_STORED_BYTES = 256 << 20  # of a run
MAX_PIECE_BYTES = 64 << 10  # of one answer
_ADDRESS = re.compile(r"[0-9a-f]{32}\Z")


class StoredResults:
    """The texts of one run. The folder appears with the first of them.

    Args:
        folder: Made if it is missing; private.
    """

    def __init__(self, folder: Path, redactor: Redactor) -> None:
        self._folder, self._redactor = folder, redactor
        self._used_bytes: int | None = None  # None: not counted yet

    async def keep(self, outcome: McpOutcome, *, over_bytes: int) -> McpOutcome:
        """The outcome with the address of its text, if that is longer than `over_bytes`.

        A text that cannot be stored has no address.
        """
        texts = [one.text for one in outcome.parts if isinstance(one, McpText)]
        if not over_bytes or sum(map(len, texts)) * 4 <= over_bytes:
            return outcome
        data = "\n".join(texts).encode("utf-8", "replace")
        if len(data) <= over_bytes:
            return outcome
        address, size = await trio.to_thread.run_sync(self._store, data)
        return msgspec.structs.replace(outcome, address=address, size_bytes=size)

    def _store(self, data: bytes) -> tuple[str, int]:
        clean = self._redactor.redact(data.decode()).encode()
        address = hashlib.sha256(clean).hexdigest()[:32]
        path = self._folder / address
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if self._used_bytes is None:
                self._used_bytes = sum(one.stat().st_size for one in self._folder.iterdir())
            if path.exists():
                return address, len(clean)
            if self._used_bytes + len(clean) > MAX_STORED_BYTES:
                return "", 0
            fresh = path.with_suffix(".new")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
                file.write(clean)
            fresh.replace(path)
        except OSError:
            return "", 0
        self._used_bytes += len(clean)
        return address, len(clean)

    async def read(self, request: ReadMcpResult) -> McpOutcome | RequestRefused:
        """One piece of a stored text, from the first whole character at or after `offset`."""
        if not _ADDRESS.match(request.address) or request.offset < 0:
            return RequestRefused(message="there is no stored result of this address")
        piece = await trio.to_thread.run_sync(self._read, request)
        if piece is None:
            return RequestRefused(message="there is no stored result of this address")
        return piece

    def _read(self, request: ReadMcpResult) -> McpOutcome | None:
        limit = min(max(request.limit_bytes, 4), MAX_PIECE_BYTES)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(self._folder / request.address, flags), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(min(request.offset, size))
                data = file.read(limit)
        except OSError:
            return None
        parts = (McpText(text=whole_characters(data)),)
        return McpOutcome(state="completed", parts=parts, address=request.address, size_bytes=size)


def whole_characters(data: bytes) -> str:
    """The text without a character that is cut off at its end."""
    return data.decode("utf-8", "ignore")
