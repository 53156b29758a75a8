"""Keys in `swarm watch`: select an agent, read its transcript while it grows, sort, leave.

Rule: read-only. Records come from the journal once, then from the feed; none twice, none missed.
"""

from collections.abc import Callable

import trio

from swarm.mailbox.protocol.control import AgentView, AnyFeed, Recorded, RunView
from swarm.mailbox.protocol.records import Record

from ..console.browse import Browse, press
from ..console.keys import Keys, open_keys
from ..console.live import LiveView
from ..console.page import TranscriptPage
from ..console.tree import Picture
from ..places import RunPlaces
from .reading import agent_records


class Browser:
    """One person at a `LiveView`. `run` returns when that person leaves."""

    def __init__(self, here: RunPlaces, view: LiveView, current: Callable[[], RunView]) -> None:
        self._here, self._view, self._current = here, view, current
        self._glyphs = view.options.glyphs
        self._browse = Browse()
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

    async def run(self, fd: int) -> bool:
        """Obey the keys of this terminal; False when it is gone, True when the person left."""
        async with open_keys(fd) as keys:
            return await self._obey(keys)

    async def _obey(self, keys: Keys) -> bool:
        self._view.show(self._browse.options(self._glyphs))
        async for key in keys:
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
        self._page, self._early = TranscriptPage(path), []
        agent = self._agent(path)
        agent_id = agent.agent_id if agent is not None else ""
        known = await trio.to_thread.run_sync(
            lambda: list(agent_records(self._here, agent_id, path)), abandon_on_cancel=True
        )
        self._page.hear(known)
        self._page.hear(self._early)
        self._early = None
        self._view.page = self._draw_page

    def _draw_page(self, width: int, height: int) -> Picture:
        assert self._page is not None
        agent = self._agent(self._page.path)
        return self._page.render(agent, width=width, height=height, glyphs=self._glyphs)

    def _agent(self, path: str) -> AgentView | None:
        return next((one for one in self._current().agents if one.path == path), None)
