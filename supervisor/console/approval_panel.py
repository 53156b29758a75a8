"""The approval panel below the live tree: reads keys while an approval waits, sends the answers.

It answers through the same control channel as any other terminal and relies on the supervisor's
reply; the run never waits for it.
"""

from collections.abc import Awaitable, Callable

import trio
from rich.segment import Segment

from swarm.mailbox.protocol.control import ResolveApproval, RunView

from .approval_prompt import (
    PromptState,
    apply_reply,
    foot_lines,
    handle_key,
    panel_lines,
    update_queue,
)
from .columns import Line, crop
from .theme import ATTENTION, DIM, PLAIN

MOST_LINES = 16


class ApprovalPanel:
    """One per live view. `render_lines` draws it, `handle_key` takes keys, `run` sends answers.

    Args:
        answer: Sends one answer; returns the supervisor's text and whether it refused.
    """

    def __init__(self, answer: Callable[[ResolveApproval], Awaitable[tuple[str, bool]]]) -> None:
        self._answer = answer
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
        return self._state.mode != "keys" or len(key) == 1

    def handle_key(self, key: str) -> None:
        stepped = handle_key(self._state, key, now=trio.current_time())
        self._state = stepped.state
        if stepped.resolution is not None:
            self._outbox.append(stepped.resolution)
        self._changed.set()

    def render_lines(self, *, width: int, height: int) -> list[Line]:
        """At most `height` lines of at most `width` cells; details are cut before head and keys."""
        text, foot = panel_lines(self._state), foot_lines(self._state, width=width)
        if not text:
            return []
        room = max(min(height, MOST_LINES) - len(foot), 1)
        if len(text) > room:
            kept = text[: max(room - 1, 1)]
            text = [*kept, f"  … {len(text) - len(kept)} more lines"][:room]
        head = [[Segment(crop(text[0], width), ATTENTION)]]
        body = [[Segment(crop(line, width), PLAIN)] for line in text[1:]]
        keys = [[Segment(crop(line, width), DIM)] for line in foot]
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
                if self._state != self._shown:
                    self._shown = self._state
                    redraw()
                await self._changed.wait()

    async def _send(self, answer: ResolveApproval, redraw: Callable[[], None]) -> None:
        text, refused = await self._answer(answer)
        self._state = apply_reply(self._state, answer.approval_id, text, refused=refused)
        redraw()
