"""The approval panel below the live tree: reads keys while an approval waits, sends the answers.

It answers through the same control channel as any other terminal and relies on the supervisor's
reply; the run never waits for it.
"""

from collections.abc import Awaitable, Callable

import trio
from rich.segment import Segment

from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.control import ResolveApproval, RunView

from .approval_prompt import (
    PromptState,
    apply_reply,
    handle_key,
    show_panel,
    take_whole,
    update_queue,
)
from .columns import Line, crop
from .theme import ATTENTION, DIM, PLAIN

MOST_LINES = 16


class ApprovalPanel:
    """One per live view. `render_lines` draws it, `handle_key` takes keys, `run` sends answers.

    Args:
        answer: Sends one answer; returns the supervisor's text and whether it refused.
        fetch: The whole of a question that a view has in part; None if it cannot be had.
    """

    def __init__(
        self,
        answer: Callable[[ResolveApproval], Awaitable[tuple[str, bool]]],
        fetch: Callable[[str], Awaitable[PendingApproval | None]],
    ) -> None:
        self._answer, self._fetch = answer, fetch
        self._fetched = ""  # the id of the question whose whole text was asked for
        self._state = self._shown = PromptState()
        self._outbox: list[ResolveApproval] = []  # decided but not sent
        self._changed = trio.Event()

    def note_change(self) -> None:
        """The run has changed: other approvals may wait now."""
        self._changed.set()

    def accepts_key(self, key: str) -> bool:
        """True if the panel takes this key: letters, and every key while a person types text."""
        if self._state.current is None:
            return False
        return self.takes_text or len(key) == 1

    @property
    def takes_text(self) -> bool:
        """True while a person types a reason or an answer."""
        return self._state.current is not None and self._state.mode != "keys"

    def handle_key(self, key: str) -> None:
        stepped = handle_key(self._state, key, now=trio.current_time())
        self._state = stepped.state
        if stepped.resolution is not None:
            self._outbox.append(stepped.resolution)
        self._changed.set()

    def render_lines(self, *, width: int, height: int) -> list[Line]:
        """At most `height` lines of at most `width` cells: head, a page of the question, keys."""
        shown = show_panel(self._state, width=width, height=min(height, MOST_LINES))
        self._state = self._shown = shown.state
        if not shown.rows:
            return []
        head = [[Segment(crop(shown.rows[0], width), ATTENTION)]]
        body = [[Segment(crop(line, width), PLAIN)] for line in shown.rows[1:]]
        keys = [[Segment(crop(line, width), DIM)] for line in shown.foot]
        return [*head, *body, *keys][:height]

    async def run(self, current: Callable[[], RunView], redraw: Callable[[], None]) -> None:
        """Update the panel and send answers until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._changed = trio.Event()
                now = trio.current_time()
                self._state = update_queue(self._state, current().approvals, now=now)
                for answer in self._outbox:
                    nursery.start_soon(self._send, answer, redraw)
                self._outbox.clear()
                pending = self._state.current
                if (
                    pending is not None
                    and pending.is_short
                    and pending.approval_id != self._fetched
                ):
                    self._fetched = pending.approval_id
                    nursery.start_soon(self._take_whole, pending.approval_id, redraw)
                if self._state != self._shown:
                    self._shown = self._state
                    redraw()
                await self._changed.wait()

    async def _take_whole(self, approval_id: str, redraw: Callable[[], None]) -> None:
        if (whole := await self._fetch(approval_id)) is not None:
            self._state = take_whole(self._state, whole)
            redraw()

    async def _send(self, answer: ResolveApproval, redraw: Callable[[], None]) -> None:
        text, refused = await self._answer(answer)
        self._state = apply_reply(self._state, answer.approval_id, text, refused=refused)
        redraw()
