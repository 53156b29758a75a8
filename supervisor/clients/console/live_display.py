"""The live tree on stderr: drawn while the run goes on, left in a short form at the end.

There is no refresh thread and no permanent timer. A frame is drawn when something changed (at most
ten per second), and once per second while an agent works, for the ages; an idle run costs nothing.
A separate thread writes the frames, so a terminal that is stopped (Ctrl-S) or hangs delays the
drawing and never the run; a terminal that is closed ends the drawing.
"""

import contextlib
import io
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TextIO

import trio
from msgspec.structs import replace
from rich.console import ConsoleDimensions
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from swarm.mailbox.protocol.control import AnyFeed, Recorded, RunView
from swarm.mailbox.protocol.events import HookRan, ProviderFallback, Warned
from swarm.mailbox.protocol.records import GatewayEnded, RunCompleted

from ...base.safe_text import clean_line
from ...views.record_description import describe_fallback, hook_warning
from .approval_panel import ApprovalPanel
from .columns import Line
from .file_links import FileLinks
from .final_answer import caution_lines, print_final_answer, summarize_run
from .run_summary import RunOutcome, SummaryRoom, describe_ends, summary_lines
from .terminal import ColorChoice, decide_color, page_width
from .theme import WARN, Glyphs, glyphs_for, make_console
from .tree_view import RenderedLines, TreeOptions, render_final, render_run

FRAME_S = 0.1
_IDLE_FRAME_INTERVAL_S = 1.0
_LAST_WRITE_S = 0.5  # time limit for writing the last frame
_MAX_NOTICES = 20  # distinct warnings printed above the tree; the footer counts them all
_OPEN_STATUSES = frozenset({"running", "idle"})
_WORKING_STATES = frozenset({"running", "waiting", "starting", "restarting"})


class DisplayControls(Protocol):
    """What a person controls with keys. Asked at every frame; keys never affect the run."""

    def on_feed(self, feed: AnyFeed) -> None:
        """Add a record to an open transcript. Never waits."""
        ...

    def tree_options(self, glyphs: Glyphs) -> TreeOptions:
        """How the tree is sorted and unfolded, and the hint about keys."""
        ...

    def render_page(
        self, view: RunView, *, width: int, height: int, glyphs: Glyphs
    ) -> RenderedLines | None:
        """The open transcript, which replaces the tree; None if none is open."""
        ...

    async def wait_closed(self) -> None:
        """Until no transcript is open."""
        ...

    async def run(
        self,
        current: Callable[[], RunView],
        redraw: Callable[[], None],
        on_stop: Callable[[bool], None],
    ) -> bool:
        """Handle keys. True: the person leaves the display. False: the terminal has gone."""
        ...


class LiveDisplay:
    """The tree on a terminal (a `RunDisplay`). `draw` also ends when the person leaves.

    Args:
        stderr: The terminal.
        stdout: Receives only the final answer.
        environment: Of the process, for `NO_COLOR` and similar variables.
        color: `--color`.
        clock: Unix seconds.
        with_answer: False for a watcher: no answer is printed at the end.
        find_outcome: What is known about the run's files, asked once, at the end.
        panel: The approval panel below the tree.
        controls: The keys; None: this terminal is only written to.
    """

    def __init__(  # noqa: PLR0913 - all but two by name, with defaults
        self,
        stderr: TextIO,
        stdout: TextIO,
        *,
        environment: Mapping[str, str],
        color: ColorChoice = "auto",
        clock: Callable[[], float] = time.time,
        with_answer: bool = True,
        find_outcome: Callable[[], RunOutcome] = RunOutcome,
        panel: ApprovalPanel | None = None,
        controls: DisplayControls | None = None,
    ) -> None:
        self._stderr, self._stdout, self._clock = stderr, stdout, clock
        self._environment = environment
        self._color: ColorChoice = color
        self._buffer = io.StringIO()
        self._console = make_console(
            stderr, environment=environment, color=color, buffer=self._buffer
        )
        self._glyphs = glyphs_for(stderr.encoding or "utf-8")
        self._panel, self._controls = panel, controls
        self._fixed_width = page_width(environment)
        self._with_answer = with_answer
        self._find_outcome = find_outcome
        self._links: FileLinks | None = None  # known at the end
        self._current: Callable[[], RunView] = RunView
        self._writing = threading.Lock()
        self._dirty = True
        self._changed = trio.Event()
        self._notices: list[str] = []  # to be printed above the tree
        self._seen_notices: set[str] = set()
        self._drawn: RenderedLines | None = None
        self._width = 0
        self.frames = 0  # number of frames drawn

    def on_feed(self, feed: AnyFeed) -> None:
        """Mark that something changed; the caller folds the feed."""
        if isinstance(feed, Recorded):
            body = feed.record.body
            if isinstance(body, Warned):
                self._notice(f"warning: {feed.record.agent} {body.message}")
            elif isinstance(body, ProviderFallback):
                self._notice(f"warning: {feed.record.agent} {describe_fallback(body)}")
            elif isinstance(body, HookRan) and hook_warning(body):
                self._notice(f"warning: {feed.record.agent} {hook_warning(body)}")
            elif isinstance(body, GatewayEnded):
                self._notice(f"warning: the gateway ended: {body.reason}")
            if self._panel is not None:
                self._panel.note_change()
        if self._controls is not None:
            self._controls.on_feed(feed)
        self.redraw()

    def redraw(self) -> None:
        self._dirty = True
        self._changed.set()

    async def draw(self, current: Callable[[], RunView]) -> None:
        """Draw frames until cancelled or left; then leave a visible cursor.

        A watcher that leaves a run at work leaves its tree on the screen; else `finish` follows.
        """
        self._current = current
        live = Live(
            console=self._console,
            auto_refresh=False,  # no refresh thread beside Trio
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        live.start()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_size)
                if self._panel is not None:
                    nursery.start_soon(self._panel.run, current, self.redraw)
                if self._controls is not None:
                    scope = nursery.cancel_scope
                    nursery.start_soon(self._run_controls, self._controls, current, scope)
                while True:
                    work_s = await self._draw_frame(live, current())
                    await self._wait_for_next_frame(current(), work_s)
        finally:
            try:
                self._render_frame(live, current(), final=True)
            finally:
                live.stop()
                with trio.move_on_after(_LAST_WRITE_S, shield=True):
                    await self._write(self._take())

    async def wait_closed(self) -> None:
        """Until the person has closed the transcript that is open, if one is."""
        if self._controls is not None:
            await self._controls.wait_closed()

    def finish(self, completed: RunCompleted) -> None:
        """Print what each agent came to, and the run; then only the answer on stdout."""
        with contextlib.suppress(OSError, ValueError):
            width, height = self._read_size()
            room = SummaryRoom(width=width, lines=height - 1, glyphs=self._glyphs)
            view = replace(self._current(), status=completed.status)
            totals = summarize_run(completed, describe_ends(view))
            outcome = self._find_outcome()
            self._links = FileLinks(view.cwd, outcome.opener)
            lines = summary_lines(view, outcome, room, totals=totals)
            self._console.print(RenderedLines(lines), end="")
            self._stderr.write(self._take() + "\n".join((*caution_lines(completed), "")))
            self._stderr.flush()
        if self._with_answer:
            print_final_answer(
                completed, stdout=self._stdout, stderr=self._stderr, render=self._render_answer
            )

    def _render_answer(self, answer: str) -> str:
        from .answer_markdown import render_answer  # takes 30 ms, and most runs have no terminal

        width, _ = self._read_size()
        coloured = decide_color(self._color, environment=self._environment, is_terminal=True)
        return render_answer(
            answer,
            width=width,
            coloured=coloured,
            environment=self._environment,
            links=self._links,
        )

    async def _run_controls(
        self, controls: DisplayControls, current: Callable[[], RunView], scope: trio.CancelScope
    ) -> None:
        if await controls.run(current, self.redraw, self._on_stop):
            scope.cancel()

    def _on_stop(self, stopped: bool) -> None:  # noqa: FBT001 - a callback
        """On Ctrl-Z show the cursor for the shell; afterwards hide it and redraw."""
        sign = b"\x1b[?25h\r\n" if stopped else b"\x1b[?25l"
        with contextlib.suppress(OSError, ValueError):
            os.write(self._stderr.fileno(), sign)
        self.redraw()

    async def _draw_frame(self, live: Live, view: RunView) -> float:
        """Draw a frame. Returns its seconds of work, without the time spent on the terminal."""
        began = time.perf_counter()
        self._dirty, self._changed = False, trio.Event()
        self._render_frame(live, view, final=False)
        work_s = time.perf_counter() - began
        if not await self._write(self._take()):
            await trio.sleep_forever()
        self.frames += 1
        return work_s

    async def _wait_for_next_frame(self, view: RunView, work_s: float) -> None:
        """Wait until the next frame is due; drawing never uses more than a tenth of a core."""
        await trio.sleep(max(FRAME_S, 9 * work_s))
        if not self._dirty:
            ticks = any(agent.state in _WORKING_STATES for agent in view.agents)
            with trio.move_on_after(_IDLE_FRAME_INTERVAL_S - FRAME_S if ticks else math.inf):
                await self._changed.wait()

    def _render_frame(self, live: Live, view: RunView, *, final: bool) -> None:
        width, height = self._read_size()
        now = self._clock()
        asked = self._panel_lines(width, height) if not final else []
        room = height - 1 - len(asked)
        options, picture, glyphs = TreeOptions(glyphs=self._glyphs), None, self._glyphs
        if self._controls is not None:
            options = self._controls.tree_options(glyphs)
            if not final:
                size = {"width": width, "height": max(room, 1)}
                picture = self._controls.render_page(view, **size, glyphs=glyphs)
        if final and (self._with_answer or view.status not in _OPEN_STATUSES):
            picture = RenderedLines([])  # `finish` prints what it came to
        if picture is None:
            render = render_final if final else render_run
            picture = render(view, width=width, height=room, now=now, options=options)
        picture = RenderedLines([*picture.lines, *asked])
        if self._drawn is not None and width < self._width:
            self._console.control(*_clear_wrapped_lines(self._drawn, width))
        for line in self._notices:
            self._console.print(Text(line, style=WARN))
        self._notices.clear()
        live.update(picture, refresh=True)
        self._drawn, self._width = picture, width

    def _panel_lines(self, width: int, height: int) -> list[Line]:
        if self._panel is None:
            return []
        return self._panel.render_lines(width=width, height=max(height - 4, 2))

    def _read_size(self) -> tuple[int, int]:
        """The terminal's current columns and lines, at least 2 each."""
        try:
            width, height = os.get_terminal_size(self._stderr.fileno())
        except (OSError, ValueError):
            width, height = 0, 0
        size = (max(self._fixed_width or width or 80, 2), max(height or 25, 2))
        self._console.size = ConsoleDimensions(*size)
        return size

    def _take(self) -> str:
        text = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return text

    async def _write(self, text: str) -> bool:
        """Write to the terminal, however long it takes. False if the terminal has gone."""
        try:
            fd = self._stderr.fileno()
        except (OSError, ValueError):
            self._stderr.write(text)
            return True
        data = text.encode(self._stderr.encoding or "utf-8", "replace")
        return await trio.to_thread.run_sync(self._write_all, fd, data, abandon_on_cancel=True)

    def _write_all(self, fd: int, data: bytes) -> bool:
        """Runs in a thread. The lock keeps the last frame behind one that still hangs."""
        rest = memoryview(data)
        with self._writing:
            try:
                while rest:
                    rest = rest[os.write(fd, rest) :]
            except OSError:
                return False
        return True

    def _notice(self, message: str) -> None:
        line = clean_line(message)
        if line not in self._seen_notices and len(self._seen_notices) < _MAX_NOTICES:
            self._seen_notices.add(line)
            self._notices.append(line)

    async def _watch_size(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread receives signals; the next change redraws
        with trio.open_signal_receiver(signal.SIGWINCH) as sizes:
            async for _ in sizes:
                self.redraw()


def _clear_wrapped_lines(drawn: RenderedLines, width: int) -> Iterable[Control]:
    """The controls that move up over the lines that a narrower window added by wrapping."""
    added = sum(math.ceil(cells / width) - 1 for cells in drawn.widths if cells)
    step = Control((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))
    return [Control(ControlType.CARRIAGE_RETURN), *([step] * added)]
