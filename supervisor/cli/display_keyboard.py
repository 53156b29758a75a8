"""Keyboard for a live display: select an agent, read its growing transcript, sort, answer, leave.

Keys only change the display and answer approvals. Records come once from the journal and then from
the feed, without duplicates or gaps.
"""

from collections.abc import Callable
from contextlib import suppress

import trio

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.control import AgentView, AnyFeed, Recorded, RunView
from swarm.mailbox.protocol.records import Record

from ..console.keyboard import open_keyboard
from ..console.live_display import LiveDisplay
from ..console.transcript_page import TranscriptPage
from ..console.tree_navigation import TreeNavigation, handle_key
from ..console.tree_view import RenderedLines
from ..runs.paths import RunPaths
from .commands.journal_commands import agent_records

_STDIN = 0


def attach_keyboard(
    here: RunPaths,
    view: LiveDisplay,
    *,
    may_leave: bool,
    on_leave: Callable[[], None] = lambda: None,
) -> None:
    """Let this terminal's keys control the display; an approval panel gets its keys first.

    Args:
        here: The run that is shown.
        view: The display; it runs the keyboard reader beside the drawing.
        may_leave: q and Ctrl-C leave the display; otherwise q is a letter and Ctrl-C a signal.
        on_leave: Called when the person leaves.
    """

    async def obey(current: Callable[[], RunView]) -> None:
        browser = DisplayNavigator(here, view, current, may_leave=may_leave)
        view.listener = browser.on_feed
        with suppress(OSError):  # the terminal is gone: continue without keys
            async with open_keyboard(
                _STDIN, interrupts=not may_leave, on_stop=view.on_stop
            ) as keys:
                browser.show_key_hints()
                async for key in keys:
                    if view.panel is not None and view.panel.accepts_key(key):
                        view.panel.handle_key(key)
                    elif await browser.handle_key(key):
                        on_leave()
                        return

    view.keyboard = obey


class DisplayNavigator:
    """Handles one person's keys at a `LiveDisplay`."""

    def __init__(
        self,
        here: RunPaths,
        view: LiveDisplay,
        current: Callable[[], RunView],
        *,
        may_leave: bool,
    ) -> None:
        self._here, self._view, self._current = here, view, current
        self._glyphs = view.options.glyphs
        self._browse = TreeNavigation(may_leave=may_leave)
        self._page: TranscriptPage | None = None
        self._buffered_records: list[Record] | None = None  # received during the journal read

    def on_feed(self, feed: AnyFeed) -> None:
        """Add a record of the feed to the open transcript. Never waits."""
        if not isinstance(feed, Recorded) or self._page is None:
            return
        if self._buffered_records is not None:
            self._buffered_records.append(feed.record)
        else:
            self._page.add_records((feed.record,))

    def show_key_hints(self) -> None:
        """Show which keys there are."""
        self._view.set_options(self._browse.options(self._glyphs))

    async def handle_key(self, key: str) -> bool:
        """Handle one key; True when the person leaves."""
        before, self._browse = self._browse, handle_key(self._browse, key, self._current())
        if self._browse.left:
            return True
        if self._browse.opened != before.opened:
            await self._open(self._browse.opened)
        elif self._page is not None:
            self._page.handle_key(key)
        self._view.set_options(self._browse.options(self._glyphs))
        return False

    async def _open(self, path: str) -> None:
        """Show this agent's transcript; "" goes back to the tree."""
        if not path:
            self._page = self._view.transcript = None
            return
        page = TranscriptPage(path, may_leave=self._browse.may_leave)
        self._page, self._buffered_records = page, []
        agent = self._agent(path)
        agent_id = agent.agent_id if agent is not None else ""
        known: list[Record] = []
        with suppress(OSError, SwarmError):  # the page then starts with later records
            known = await trio.to_thread.run_sync(
                lambda: list(agent_records(self._here, agent_id, path)), abandon_on_cancel=True
            )
        page.add_records(known)
        page.add_records(self._buffered_records)
        self._buffered_records = None
        self._view.transcript = self._draw_page

    def _draw_page(self, width: int, height: int) -> RenderedLines:
        assert self._page is not None
        agent = self._agent(self._page.path)
        return self._page.render(agent, width=width, height=height, glyphs=self._glyphs)

    def _agent(self, path: str) -> AgentView | None:
        return next((one for one in self._current().agents if one.path == path), None)
