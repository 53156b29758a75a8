"""Draws an application inline: a transcript that only grows, and a live region below it.

Everything that belongs to one moment is written in one piece, between the marks with which
terminals that know them show a whole frame at once; the others ignore these marks.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle

from .reflow import rows_above_cursor
from .terminal_keys import open_chat_input

_BEGIN_FRAME, _END_FRAME = "\x1b[?2026h", "\x1b[?2026l"


class FrameOutput(Vt100_Output):
    """Holds back what is written within `one_frame`, then writes it at once."""

    depth = 0

    @contextmanager
    def one_frame(self) -> Iterator[None]:
        """Frames may be nested; the outermost one is written."""
        if self.depth == 0:
            self.write_raw(_BEGIN_FRAME)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if self.depth == 0:
                self.write_raw(_END_FRAME)
                self.flush()

    def erase_down(self) -> None:
        """Erase from the cursor, which is at a line's begin, to the end of the screen.

        Not by one code: at the top of the screen tmux takes that for clearing it, and moves what
        stood there into its history.
        """
        self.write_raw("\x1b7\x1b[K\x1b[B\r\x1b[J\x1b8")

    def flush(self) -> None:
        if self.depth == 0:
            super().flush()


def open_frame_output(stream: TextIO) -> FrameOutput:
    """The output for a terminal. It asks the terminal nothing, so no answer can get lost."""

    def get_size() -> Size:
        try:
            columns, rows = os.get_terminal_size(stream.fileno())
        except OSError:
            columns, rows = 0, 0
        return Size(rows=rows or 24, columns=columns or 80)

    term = os.environ.get("TERM")
    return FrameOutput(stream, get_size, term=term, enable_bell=False, enable_cpr=False)


class InlineRenderer(Renderer):
    """A renderer that knows how the terminal wrapped its lines again after a change of width."""

    def render(
        self,
        app: Application[object],
        layout: Layout,
        is_done: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Draw; after a change of width what was drawn before is erased first."""
        if self._has_reflowed():
            self.erase(leave_alternate_screen=False)
        super().render(app, layout, is_done)

    def erase(self, leave_alternate_screen: bool = True) -> None:  # noqa: FBT001, FBT002
        """Erase the region, which is higher than it was drawn if the terminal became narrower."""
        screen = self._last_screen
        if screen is not None and self._has_reflowed():
            columns = self.output.get_size().columns
            widths = [_row_width(screen.data_buffer[row]) for row in range(screen.height)]
            cursor = self._cursor_pos
            above = rows_above_cursor(widths, cursor.y, cursor.x, columns)
            self._cursor_pos = Point(x=cursor.x % columns, y=above)
        super().erase(leave_alternate_screen)

    def _has_reflowed(self) -> bool:
        drawn = self._last_size
        return drawn is not None and drawn.columns != self.output.get_size().columns

    def drawn_height(self) -> int:
        """Lines of the region as it was drawn last; 0 if it is not drawn."""
        return 0 if self._last_screen is None else self._last_screen.height


def _row_width(row: object) -> int:
    cells = cast("dict[int, object]", row)
    used = [column for column, cell in cells.items() if getattr(cell, "char", " ") != " "]
    return max(used, default=-1) + 1


class InlineApplication(Application[None]):
    """The application of the conversation; `print_above` is the only way to the transcript."""

    def __init__(
        self,
        *,
        layout: Layout,
        key_bindings: KeyBindings,
        style: BaseStyle,
        output: FrameOutput,
        coloured: bool,
        on_resize: Callable[[], None],
    ) -> None:
        super().__init__(
            layout=layout,
            key_bindings=key_bindings,
            style=style,
            input=open_chat_input(),
            output=output,
            color_depth=None if coloured else ColorDepth.DEPTH_1_BIT,
            full_screen=False,
            erase_when_done=True,
        )
        self.frames = output
        self._resized = on_resize
        self.inline = InlineRenderer(self._merged_style, output)
        self.renderer = self.inline
        self.ttimeoutlen = 0.15  # Esc alone: nothing follows it for so long
        self.timeoutlen = 0.05  # Esc before Enter, typed as two keys

    def suspend(self) -> None:
        """Stop, as any program of a shell does at Ctrl-Z; the terminal is as before meanwhile."""
        self.suspend_to_background()

    def continue_here(self) -> None:
        """After SIGCONT: the shell had the terminal and its modes, so take them, and draw anew."""
        if not self.is_running or os.tcgetpgrp(self.input.fileno()) != os.getpgrp():
            return
        self.input.raw_mode().__enter__()  # the application's own ends it, with the first modes
        self.renderer.reset()
        with self.frames.one_frame():
            self._redraw()
        self._resized()

    def print_above(self, text: str) -> None:
        """Append text (lines that end in `\\r\\n`) to the transcript, above the region."""
        with self.frames.one_frame():
            self.renderer.erase(leave_alternate_screen=False)
            self.frames.write_raw(text)
            self._redraw()

    def redraw_now(self, wanted_height: int) -> None:
        """Draw the region; one that becomes lower is erased first."""
        with self.frames.one_frame():
            if wanted_height < self.inline.drawn_height():
                self.renderer.erase(leave_alternate_screen=False)
            self._redraw()

    def _on_resize(self) -> None:
        with self.frames.one_frame():
            super()._on_resize()
        self._resized()
