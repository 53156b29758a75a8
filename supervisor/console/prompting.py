"""The panel below the live tree: reads keys while something waits, sends what was decided.

Rule: it answers through the same door as any other terminal, and believes what comes back from
there; the run never waits for it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import trio
from rich.segment import Segment

from swarm.mailbox.protocol.control import ResolveApproval, RunView

from .columns import Line, crop
from .paint import ASKING, DIM, PLAIN
from .prompt import PromptState, foot_lines, panel_lines, step, take_queue, told

MOST_LINES = 16


class Panel:
    """One a live view. `draw` shows it, `run` reads keys.

    Args:
        open_keys: Keys by name until closed; called when a question appears.
        answer: Sends one answer; returns the supervisor's words and whether it refused.
    """

    def __init__(
        self,
        open_keys: Callable[[], AsyncGenerator[str, None]],
        answer: Callable[[ResolveApproval], Awaitable[tuple[str, bool]]],
    ) -> None:
        self._open_keys, self._answer = open_keys, answer
        self._state = PromptState()
        self._changed = trio.Event()

    def notice(self) -> None:
        """Something happened in the run: what waits may be different now."""
        self._changed.set()

    def lines(self, *, width: int, height: int) -> list[Line]:
        """At most `height` lines of at most `width` cells; details give way to head and keys."""
        text, foot = panel_lines(self._state), foot_lines(self._state, width=width)
        if not text:
            return []
        room = max(min(height, MOST_LINES) - len(foot), 1)
        if len(text) > room:
            kept = text[: max(room - 1, 1)]
            text = [*kept, f"  … {len(text) - len(kept)} more lines"][:room]
        head = [[Segment(crop(text[0], width), ASKING)]]
        body = [[Segment(crop(line, width), PLAIN)] for line in text[1:]]
        keys = [[Segment(crop(line, width), DIM)] for line in foot]
        return [*head, *body, *keys][:height]

    async def run(self, current: Callable[[], RunView], redraw: Callable[[], None]) -> None:
        """Until cancelled."""
        while True:
            self._changed = trio.Event()
            self._take(current(), redraw)
            if self._state.current is None:
                await self._changed.wait()
            else:
                await self._ask(current, redraw)

    async def _ask(self, current: Callable[[], RunView], redraw: Callable[[], None]) -> None:
        """Read keys until nothing waits any more."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, nursery, redraw)
            while self._state.current is not None:
                await self._changed.wait()
                self._changed = trio.Event()
                self._take(current(), redraw)
            nursery.cancel_scope.cancel()

    async def _read(self, nursery: trio.Nursery, redraw: Callable[[], None]) -> None:
        async with aclosing(self._open_keys()) as keys:
            async for key in keys:
                stepped = step(self._state, key, now=trio.current_time())
                self._state = stepped.state
                redraw()
                if stepped.wish is not None:
                    nursery.start_soon(self._send, stepped.wish, redraw)

    async def _send(self, wish: ResolveApproval, redraw: Callable[[], None]) -> None:
        words, refused = await self._answer(wish)
        self._state = told(self._state, wish.approval_id, words, refused=refused)
        redraw()

    def _take(self, view: RunView, redraw: Callable[[], None]) -> None:
        before = self._state
        self._state = take_queue(before, view.approvals, now=trio.current_time())
        if self._state != before:
            redraw()
