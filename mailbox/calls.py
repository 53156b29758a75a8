"""Request and reply over any mailbox: which reply belongs to which request, and by when.

The rule it guards: every request ends, with its reply, its deadline or the loss of the other side.
"""

from typing import Generic, TypeVar

import trio

from .errors import MailboxError

R = TypeVar("R")


class CallTimedOut(MailboxError):
    """No reply came in time. A late one is ignored."""

    def __init__(self, *, request_id: int, timeout_s: float) -> None:
        super().__init__(f"request {request_id} had no reply after {timeout_s:g} s")
        self.request_id, self.timeout_s = request_id, timeout_s


class _Call(Generic[R]):
    """One open request."""

    __slots__ = ("error", "event", "replies")

    def __init__(self) -> None:
        self.event = trio.Event()
        self.replies: list[R] = []  # none or one; R may be None itself
        self.error: BaseException | None = None


class Calls(Generic[R]):
    """Open requests of one sender. Use: `begin`, send, `wait`; the receiving task `resolve`s."""

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, _Call[R]] = {}

    def begin(self) -> int:
        """A new request id: 1, 2, 3 …; it stays open until `wait` ends or `abandon` is called."""
        self._last += 1
        self._open[self._last] = _Call()
        return self._last

    def resolve(self, request_id: int, reply: R) -> bool:
        """Hand in a reply. False if nobody waits for it (twice, too late, never asked)."""
        call = self._open.get(request_id)
        if call is None or call.event.is_set():
            return False
        call.replies.append(reply)
        call.event.set()
        return True

    async def wait(self, request_id: int, *, timeout_s: float) -> R:
        """The reply; it may be here already. The request is closed whatever happens.

        Raises:
            CallTimedOut: After `timeout_s`.
            KeyError: It is not open.
            The error given to `fail_all`.
        """
        call = self._open[request_id]
        try:
            with trio.move_on_after(timeout_s):
                await call.event.wait()
        finally:
            self._open.pop(request_id, None)
        if call.error is not None:
            raise call.error
        if not call.replies:
            raise CallTimedOut(request_id=request_id, timeout_s=timeout_s)
        return call.replies[0]

    def abandon(self, request_id: int) -> None:
        """Close a request nobody will wait for. Unknown ids are ignored."""
        self._open.pop(request_id, None)

    def fail_all(self, error: BaseException) -> None:
        """The other side is gone: every open request raises `error` from its `wait`."""
        for call in self._open.values():
            if not call.event.is_set():
                call.error = error
                call.event.set()

    def __len__(self) -> int:
        return len(self._open)
