"""The messages of a server on their way to the SDK's session, each answer fitted first."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

import mcp_types
from mcp.shared.message import SessionMessage

from .result_fitting import fit_result
from .session_streams import ReadStream

Message = SessionMessage | Exception


class FittedStream:
    """A reader that passes on what `inner` reads. Closing it closes `inner`.

    Args:
        version: The revision that was negotiated, or "".
        note: Gets one line for each thing that was put right or left out.
    """

    def __init__(
        self, inner: ReadStream[Message], version: Callable[[], str], note: Callable[[str], None]
    ) -> None:
        self._inner = inner
        self._version = version
        self._note = note

    async def receive(self) -> Message:
        return self._fitted(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        return self._fitted(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)

    def _fitted(self, message: Message) -> Message:
        if isinstance(message, Exception) or not isinstance(
            message.message, mcp_types.JSONRPCResponse
        ):
            return message
        fitted = fit_result(message.message.result, self._version())
        for line in fitted.notes:
            self._note(line)
        if fitted.result is message.message.result:
            return message
        answer = message.message.model_copy(update={"result": fitted.result})
        return SessionMessage(answer, metadata=message.metadata)
