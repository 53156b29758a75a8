"""Keys of `swarm top`, and what they do to the selected run."""

import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec
import trio
from rich.segment import Segment

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.control import (
    AnyControl,
    Approvals,
    ContinueAgent,
    Done,
    InterruptAgent,
    ListApprovals,
    PauseAgent,
    ResolveApproval,
    RunView,
    SendText,
)

from ...base.safe_text import clean_line
from ..cli.base.control_client import send_request
from ..console.approval_panel import ApprovalPanel
from ..console.columns import Line, crop
from ..console.keyboard import open_keyboard
from ..console.theme import ATTENTION, DIM, PLAIN, Glyphs
from .top_rows import TopRow, order_rows, questions_for_person
from .top_runs import TopRuns
from .top_screen import TopScreen
from .top_view import render_top, waiting_count

_STDIN = 0
_FRAME_S, _AGES_S = 0.2, 1.0
_MOST_WORDS = 4_000  # characters that are typed here; more is said in the conversation
Mode = Literal["rows", "answer", "words", "stop"]


class ShellCommand(msgspec.Struct, frozen=True):
    """A `swarm` command that has the terminal for itself meanwhile."""

    words: tuple[str, ...]
    waits: bool = False  # its output stays until Enter


class TopApp:
    """One screen of all runs. `run` ends when the person leaves or the terminal is gone."""

    def __init__(self, runs: TopRuns, screen: TopScreen, glyphs: Glyphs) -> None:
        self._runs = runs
        self._screen = screen
        self._glyphs = glyphs
        self._changed = trio.Event()
        self._mode: Mode = "rows"
        self._selected = ""
        self._typed = ""
        self._said = ""  # what the last action came to
        self._panel = ApprovalPanel(self._answer, self._fetch)

    def note_change(self) -> None:
        self._changed.set()
        self._panel.note_change()

    async def run(self) -> None:
        self._screen.enter()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._runs.watch)
                nursery.start_soon(self._draw)
                nursery.start_soon(self._panel.run, self._panel_view, self.note_change)
                nursery.start_soon(self._end_on_signal, nursery.cancel_scope)
                await self._take_keys()
                nursery.cancel_scope.cancel()
        finally:
            self._screen.leave()

    # --- what is shown -----------------------------------------------------------------------

    async def _draw(self) -> None:
        while True:
            self._changed = trio.Event()
            self._show()
            await trio.sleep(_FRAME_S)
            with trio.move_on_after(_AGES_S - _FRAME_S):
                await self._changed.wait()

    def _show(self) -> None:
        rows = self._runs.rows()
        if not any(row.run_id == self._selected for row in rows):
            self._selected = next((row.run_id for row in order_rows(rows)), "")
        if self._mode == "answer" and not questions_for_person(self._panel_view()):
            self._mode = "rows"
        width, height = self._screen.size()
        lines = render_top(
            rows,
            width=width,
            height=height,
            now=time.time(),
            glyphs=self._glyphs,
            selected=self._selected,
            foot=self._foot(width, height),
        )
        waiting = waiting_count(rows)
        title = f"swarm: {waiting} for you" if waiting else "swarm top"
        self._screen.draw(lines, title=title)

    def _foot(self, width: int, height: int) -> list[Line]:
        mark = self._glyphs.ellipsis
        if self._mode == "answer":
            shown = self._panel.render_lines(width=width, height=max(height // 2, 4))
            return [*shown, [Segment(crop("Esc: back to the runs", width, mark=mark), DIM)]]
        if self._mode == "words":
            text = f"words for {self._selected[-8:]}, Enter sends, Esc leaves: {self._typed}"
            return [[Segment(crop(clean_line(text)[-width:], width), PLAIN)]]
        if self._mode == "stop":
            text = f"stop all turns of {self._selected[-8:]}? its agents stay; y yes, n no"
            return [[Segment(crop(text, width, mark=mark), ATTENTION)]]
        if self._said:
            return [[Segment(crop(clean_line(self._said), width, mark=mark), PLAIN)]]
        return []

    # --- keys --------------------------------------------------------------------------------

    async def _take_keys(self) -> None:
        """Until the person leaves; other commands have the terminal in between."""
        while True:
            wanted: ShellCommand | None = None
            async with open_keyboard(_STDIN, interrupts=False, on_stop=self._on_stop) as keys:
                async for key in keys:
                    wanted = await self._press(key)
                    if wanted is not None:
                        break
                    self.note_change()
            if wanted is None or not wanted.words:
                return
            await self._run_command(wanted)

    async def _press(self, key: str) -> ShellCommand | None:
        """The command that takes the terminal now; one without words: leave."""
        row = next((one for one in self._runs.rows() if one.run_id == self._selected), None)
        match self._mode:
            case "answer":
                self._press_answer(key)
            case "words":
                await self._press_words(key)
            case "stop":
                self._mode = "rows"
                if key == "y":
                    await self._ask_run(InterruptAgent())
            case "rows":
                self._said = ""
                return await self._press_rows(key, row)
        return None

    async def _press_rows(self, key: str, row: TopRow | None) -> ShellCommand | None:
        match key:
            case "q" | "ctrl-c":
                return ShellCommand(())
            case "up" | "down" | "home" | "end" | "page_up" | "page_down":
                self._move(key)
            case _ if row is not None:
                return await self._press_run(key, row)
            case _:
                pass
        return None

    async def _press_run(self, key: str, row: TopRow) -> ShellCommand | None:
        run = row.run_id
        match key:
            case "enter":
                return ShellCommand(("watch", run))
            case "d":
                return ShellCommand(("diff", run), waits=True)
            case "c":
                return ShellCommand(("chat", run))
            case "m":
                return ShellCommand(("merge", run), waits=True)
            case "a" | "s" | "x" | "p" | "g" if not row.is_alive:
                self._said = f"run {row.short_id} has ended; c talks on with it"
            case "a":
                self._mode = "answer" if questions_for_person(self._panel_view()) else "rows"
                self._said = "" if self._mode == "answer" else "nothing waits for an answer here"
            case "s":
                self._mode, self._typed = "words", ""
            case "x":
                self._mode = "stop"
            case "p":
                await self._ask_run(PauseAgent())
            case "g":
                await self._ask_run(ContinueAgent())
            case _:
                pass
        return None

    def _press_answer(self, key: str) -> None:
        if key == "esc" and not self._panel.takes_text:
            self._mode = "rows"
        elif self._panel.accepts_key(key):
            self._panel.handle_key(key)

    async def _press_words(self, key: str) -> None:
        if key == "esc":
            self._mode = "rows"
        elif key == "backspace":
            self._typed = self._typed[:-1]
        elif key == "enter":
            self._mode = "rows"
            if words := self._typed.strip():
                await self._ask_run(SendText(agent=ROOT_PATH, text=words))
        elif len(key) == 1 and len(self._typed) < _MOST_WORDS:
            self._typed += key

    def _move(self, key: str) -> None:
        order = [row.run_id for row in order_rows(self._runs.rows())]
        if not order:
            return
        at = order.index(self._selected) if self._selected in order else 0
        step = {"up": -1, "down": 1, "page_up": -10, "page_down": 10}.get(key)
        to = {"home": 0, "end": len(order) - 1}.get(key, at + (step or 0))
        self._selected = order[min(max(to, 0), len(order) - 1)]

    # --- what is done ------------------------------------------------------------------------

    async def _ask_run(self, request: AnyControl) -> None:
        followed = self._runs.live.get(self._selected)
        if followed is None:
            return
        try:
            reply = await send_request(followed.here, request)
            self._said = reply.message if isinstance(reply, Done) else ""
        except SwarmError as error:
            self._said = str(error)

    def _panel_view(self) -> RunView:
        followed = self._runs.live.get(self._selected)
        view = None if followed is None else followed.view
        if view is None:
            return RunView()
        return msgspec.structs.replace(view, approvals=questions_for_person(view))

    async def _answer(self, answer: ResolveApproval) -> tuple[str, bool]:
        followed = self._runs.live.get(self._selected)
        if followed is None:
            return "this run has ended", True
        try:
            reply = await send_request(followed.here, answer)
        except SwarmError as error:
            return str(error), True
        return (reply.message if isinstance(reply, Done) else ""), False

    async def _fetch(self, approval_id: str) -> PendingApproval | None:
        followed = self._runs.live.get(self._selected)
        if followed is None:
            return None
        try:
            reply = await send_request(followed.here, ListApprovals(approval_id=approval_id))
        except SwarmError:
            return None
        return next(iter(reply.entries), None) if isinstance(reply, Approvals) else None

    async def _run_command(self, command: ShellCommand) -> None:
        """Give the terminal to another command of swarm; take it back when that has ended."""
        line = [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry", *command.words]
        self._screen.leave()
        before = signal.signal(signal.SIGINT, _ignore)  # Ctrl-C is meant for that command
        try:
            await trio.run_process(line, check=False, stdin=None)
            if command.waits:
                print("Enter: back to all runs", flush=True)  # noqa: T201 - between two screens
                await trio.to_thread.run_sync(partial(sys.stdin.readline, 4_096))
        finally:
            signal.signal(signal.SIGINT, before)
            self._screen.enter()

    def _on_stop(self, stopped: bool) -> None:  # noqa: FBT001 - a callback
        if stopped:
            self._screen.leave()
        else:
            self._screen.enter()
            self.note_change()

    async def _end_on_signal(self, scope: trio.CancelScope) -> None:
        """End in a way that restores the terminal."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
            async for _ in signals:
                scope.cancel()


def _ignore(*_: object) -> None:
    """A handler, so that a child gets the default again."""


def row_fields(rows: Sequence[TopRow]) -> list[dict[str, object]]:
    """All fields of each row, in order, for programs."""
    return [{**msgspec.structs.asdict(row), "project": row.project} for row in order_rows(rows)]
