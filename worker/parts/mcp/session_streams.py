"""What the SDK's session reads from and writes to, whichever transport made it.

The SDK has the same two protocols, in a module of its own that it may move at any time.
"""

from types import TracebackType
from typing import Protocol, Self, TypeVar

_Read = TypeVar("_Read", covariant=True)
_Written = TypeVar("_Written", contravariant=True)


class _Closing(Protocol):
    async def aclose(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


class ReadStream(_Closing, Protocol[_Read]):
    async def receive(self) -> _Read: ...
    def __aiter__(self) -> "ReadStream[_Read]": ...
    async def __anext__(self) -> _Read: ...


class WriteStream(_Closing, Protocol[_Written]):
    async def send(self, item: _Written, /) -> None: ...
