"""Keys at a live view: select an agent, read its transcript while it grows, sort, answer, leave.

Rule: they change how a person looks, and answer what is asked; nothing else. Records come from the
journal once, then from the feed; none twice, none missed.
"""

from collections.abc import Callable
from contextlib import suppress

import trio

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.control import AgentView, AnyFeed, Recorded, RunView
from swarm.mailbox.protocol.records import Record

from ..console.browse import Browse, press
from ..console.keys import open_keys
from ..console.live import LiveView
from ..console.page import TranscriptPage
from ..console.tree import Picture
from ..places import RunPlaces
from .reading import agent_records

_STDIN = 0


def attach_keys(
    here: RunPlaces,
    view: LiveView,
    *,
    may_leave: bool,
    on_leave: Callable[[], None] = lambda: None,
) -> None:
    """Let this terminal's keys lead through the view; its panel, if it has one, takes its own.

    Args:
        here: The run that is shown.
        view: What is drawn; it runs the reading of keys beside the drawing.
        may_leave: q and Ctrl-C end the looking; else they are a letter and a signal.
        on_leave: Called when the person leaves.
    """

    async def obey(current: Callable[[], RunView]) -> None:
        browser = Browser(here, view, current, may_leave=may_leave)
        view.listener = browser.on_feed
        with suppress(OSError):  # the terminal is gone: the run, or who looks, goes on without keys
            async with open_keys(_STDIN, interrupts=not may_leave, on_stop=view.on_stop) as keys:
                browser.start()
                async for key in keys:
                    if view.panel is not None and view.panel.takes(key):
                        view.panel.press(key)
                    elif await browser.press(key):
                        on_leave()
                        return

    view.keyboard = obey


class Browser:
    """One person at a `LiveView`."""

    def __init__(
        self,
        here: RunPlaces,
        view: LiveView,
        current: Callable[[], RunView],
        *,
        may_leave: bool,
    ) -> None:
        self._here, self._view, self._current = here, view, current
        self._glyphs = view.options.glyphs
        self._browse = Browse(may_leave=may_leave)
        self._page: TranscriptPage | None = None
        self._early: list[Record] | None = None  # heard while the journal is being read

    def on_feed(self, feed: AnyFeed) -> None:
        """What the view is fed. Never waits."""
        if not isinstance(feed, Recorded) or self._page is None:
            return
        if self._early is not None:
            self._early.append(feed.record)
        else:
            self._page.hear((feed.record,))

    def start(self) -> None:
        """Say which keys there are."""
        self._view.show(self._browse.options(self._glyphs))

    async def press(self, key: str) -> bool:
        """Obey one key; True when the person leaves."""
        before, self._browse = self._browse, press(self._browse, key, self._current())
        if self._browse.left:
            return True
        if self._browse.opened != before.opened:
            await self._open(self._browse.opened)
        elif self._page is not None:
            self._page.press(key)
        self._view.show(self._browse.options(self._glyphs))
        return False

    async def _open(self, path: str) -> None:
        """Show this agent's transcript; "" goes back to the tree."""
        if not path:
            self._page = self._view.page = None
            return
        page = TranscriptPage(path, may_leave=self._browse.may_leave)
        self._page, self._early = page, []
        agent = self._agent(path)
        agent_id = agent.agent_id if agent is not None else ""
        known: list[Record] = []
        with suppress(OSError, SwarmError):  # then it begins with what comes from here on
            known = await trio.to_thread.run_sync(
                lambda: list(agent_records(self._here, agent_id, path)), abandon_on_cancel=True
            )
        page.hear(known)
        page.hear(self._early)
        self._early = None
        self._view.page = self._draw_page

    def _draw_page(self, width: int, height: int) -> Picture:
        assert self._page is not None
        agent = self._agent(self._page.path)
        return self._page.render(agent, width=width, height=height, glyphs=self._glyphs)

    def _agent(self, path: str) -> AgentView | None:
        return next((one for one in self._current().agents if one.path == path), None)
