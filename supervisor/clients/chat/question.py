"""The open question of the conversation: which one is asked, its keys, the way of its answer.

The decisions are those of the approval panel (console/approval_prompt.py).
"""

import time
from collections.abc import Awaitable, Callable

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.control import ResolveApproval

from ..console.approval_prompt import (
    PromptState,
    apply_reply,
    handle_key,
    panel_lines,
    show_panel,
    take_whole,
    update_queue,
)


class OpenQuestion:
    """The questions of one run. `send` sends one answer and returns the supervisor's words."""

    def __init__(self, send: Callable[[ResolveApproval], Awaitable[str]]) -> None:
        self._send = send
        self._state = PromptState()
        self._fetched = ""  # the id of the question whose whole text was asked for
        self.is_postponed = False  # the person decides later: keys go to the line

    def update(self, waiting: tuple[PendingApproval, ...], *, selected: str) -> None:
        """What waits now; the selected agent's questions come first."""
        before = self._state.current
        self._state = update_queue(self._state, waiting, now=time.monotonic(), first=selected)
        current = self._state.current
        if current is None or (before is not None and current.approval_id != before.approval_id):
            self.is_postponed = False

    def missing_whole(self) -> str:
        """The id of a question that is known in part and whose rest is to be asked for now."""
        current = self._state.current
        if current is None or not current.is_short or current.approval_id == self._fetched:
            return ""
        self._fetched = current.approval_id
        return current.approval_id

    def take_whole(self, whole: PendingApproval) -> None:
        """All of a question of which a part was known."""
        self._state = take_whole(self._state, whole)

    @property
    def is_open(self) -> bool:
        """True if a question waits for keys."""
        return self._state.current is not None and not self.is_postponed

    @property
    def is_typing(self) -> bool:
        """True if a text is being typed as the answer."""
        return self.is_open and self._state.mode != "keys"

    @property
    def is_ready(self) -> bool:
        """False in the first moments of a question, in which no key counts."""
        return self._state.current is None or time.monotonic() >= self._state.ready_at

    def postpone_or_reopen(self) -> None:
        """Decide later, or now after all."""
        self.is_postponed = not self.is_postponed

    async def press(self, key: str) -> None:
        """One key; an answer is sent at once."""
        stepped = handle_key(self._state, key, now=time.monotonic())
        self._state = stepped.state
        if (answer := stepped.resolution) is None:
            return
        try:
            words, refused = await self._send(answer), False
        except SwarmError as error:
            words, refused = str(error), True
        self._state = apply_reply(self._state, answer.approval_id, words, refused=refused)

    def lines(
        self, *, has_text: bool, width: int, height: int
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """A page of the question, and below it the keys; both empty if there is none.

        What is returned is drawn: it then counts as seen.
        """
        if self._state.current is None:
            return (), ()
        if self.is_postponed:
            return tuple(panel_lines(self._state)[:1]), ("  Ctrl-G answers it",)
        shown = show_panel(self._state, width=width, height=height)
        self._state, foot = shown.state, list(shown.foot)
        if not self.is_ready:
            foot = ["  …"]  # what was typed before the question could be read does not answer it
        if has_text and self._state.mode == "keys":
            foot = ["  an empty line takes the keys that answer: send it, or clear it with Ctrl-C"]
        return shown.rows, tuple(foot)
