"""The live display of a run on this terminal, and the keys that control it.

Keys select an agent, show its growing transcript, sort the tree, answer approvals and leave. They
change only the display; answers go through the run's control socket, as from any other terminal.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.control import (
    AgentView,
    AnyFeed,
    Approvals,
    Done,
    ListApprovals,
    Recorded,
    ResolveApproval,
    RunView,
)
from swarm.mailbox.protocol.records import Record

from ....journal.journal_reader import agent_records
from ....runs.paths import RunPaths
from ...console.approval_panel import ApprovalPanel
from ...console.keyboard import can_read_keys, open_keyboard
from ...console.live_display import LiveDisplay
from ...console.terminal import ColorChoice
from ...console.theme import Glyphs
from ...console.transcript_page import TranscriptPage
from ...console.tree_navigation import TreeNavigation, handle_key
from ...console.tree_view import RenderedLines, TreeOptions
from ..base.control_client import send_request
from .shown_outcome import find_shown_outcome

_STDIN = 0


def make_live_display(
    here: RunPaths, *, color: ColorChoice, watches: bool, asks_person: bool = False
) -> LiveDisplay:
    """The live tree on stderr, with keys if this process may read them.

    Args:
        here: The run that is shown.
        color: `--color`.
        watches: q and Ctrl-C leave the display, and no answer is printed at the end. Otherwise
            this is the run's own process: q is a letter and Ctrl-C a signal.
        asks_person: Show the run's approvals and take answers here.
    """
    panel = controls = None
    if can_read_keys(_STDIN):
        panel = None
        if asks_person:
            panel = ApprovalPanel(partial(_send_answer, here), partial(_fetch_whole, here))
        controls = LiveControls(here, panel=panel, may_leave=watches)
    return LiveDisplay(
        sys.stderr, sys.stdout, environment=os.environ, color=color, with_answer=not watches,
        panel=panel, controls=controls, find_outcome=partial(find_shown_outcome, here),
    )  # fmt: skip


async def _send_answer(here: RunPaths, answer: ResolveApproval) -> tuple[str, bool]:
    """The supervisor's text, and whether it refused the answer."""
    try:
        reply = await send_request(here, answer)
    except SwarmError as error:
        return str(error), True
    return (reply.message if isinstance(reply, Done) else ""), False


async def _fetch_whole(here: RunPaths, approval_id: str) -> PendingApproval | None:
    """All of one question."""
    try:
        reply = await send_request(here, ListApprovals(approval_id=approval_id))
    except SwarmError:
        return None
    return next(iter(reply.entries), None) if isinstance(reply, Approvals) else None


class LiveControls:
    """One person's keys at a `LiveDisplay` (its `DisplayControls`); the panel gets its keys first.

    An open transcript has each record once: from the journal, then from the feed.
    """

    def __init__(self, here: RunPaths, *, panel: ApprovalPanel | None, may_leave: bool) -> None:
        self._here, self._panel = here, panel
        self._navigation = TreeNavigation(may_leave=may_leave)
        self._reads_keys = False
        self._page: TranscriptPage | None = None
        self._closed = trio.Event()  # set when the open transcript is closed
        self._buffered_records: list[Record] | None = None  # received during the journal read

    def on_feed(self, feed: AnyFeed) -> None:
        if not isinstance(feed, Recorded) or self._page is None:
            return
        if self._buffered_records is not None:
            self._buffered_records.append(feed.record)
        else:
            self._page.add_records((feed.record,))

    def tree_options(self, glyphs: Glyphs) -> TreeOptions:
        return self._navigation.options(glyphs) if self._reads_keys else TreeOptions(glyphs=glyphs)

    def render_page(
        self, view: RunView, *, width: int, height: int, glyphs: Glyphs
    ) -> RenderedLines | None:
        if self._page is None or self._buffered_records is not None:
            return None
        agent = _find_agent(view, self._page.path)
        return self._page.render(agent, width=width, height=height, glyphs=glyphs)

    async def run(
        self,
        current: Callable[[], RunView],
        redraw: Callable[[], None],
        on_stop: Callable[[bool], None],
    ) -> bool:
        may_leave = self._navigation.may_leave
        with suppress(OSError):  # the terminal is gone: continue without keys
            async with open_keyboard(_STDIN, interrupts=not may_leave, on_stop=on_stop) as keys:
                self._reads_keys = True
                redraw()
                async for key in keys:
                    if (panel := self._panel_for(key)) is not None:
                        panel.handle_key(key)
                        continue
                    await self._handle_key(key, current())
                    if self._navigation.left:
                        return True
                    redraw()
        return False

    async def wait_closed(self) -> None:
        while self._page is not None:
            await self._closed.wait()

    def _panel_for(self, key: str) -> ApprovalPanel | None:
        """The panel if this key is an answer; q leaves also while a question waits."""
        panel = self._panel
        if panel is None or not panel.accepts_key(key):
            return None
        leaves = key == "q" and self._navigation.may_leave and not panel.takes_text
        return None if leaves else panel

    async def _handle_key(self, key: str, view: RunView) -> None:
        before, self._navigation = self._navigation, handle_key(self._navigation, key, view)
        if self._navigation.left:
            return
        if self._navigation.opened != before.opened:
            await self._open(self._navigation.opened, view)
        elif self._page is not None:
            self._page.handle_key(key)

    async def _open(self, path: str, view: RunView) -> None:
        """Show this agent's transcript; "" goes back to the tree."""
        self._page = None
        self._closed.set()
        if not path:
            return
        self._closed = trio.Event()
        page = TranscriptPage(path, may_leave=self._navigation.may_leave)
        self._page, self._buffered_records = page, []
        agent = _find_agent(view, path)
        agent_id = agent.agent_id if agent is not None else ""
        known: list[Record] = []
        with suppress(OSError, SwarmError):  # the page then starts with later records
            known = await trio.to_thread.run_sync(
                lambda: list(agent_records(self._here, agent_id, path)), abandon_on_cancel=True
            )
        page.add_records(known)
        page.add_records(self._buffered_records)
        self._buffered_records = None


def _find_agent(view: RunView, path: str) -> AgentView | None:
    return next((agent for agent in view.agents if agent.path == path), None)
