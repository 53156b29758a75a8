"""The screen of the conversation: input line, live region, status line. Imports no part of a run.

It only shows what it is given and tells what was typed, so it can be drawn before anything else
is loaded. One task owns it.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    SearchBufferControl,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.styles import Style

from .chat_keys import KeyTargets, make_key_bindings
from .inline_terminal import InlineApplication, open_frame_output
from .input_completion import ChatCompleter
from .screen_events import Gestured, ScreenEvent
from .slash_commands import OwnCommand

_INPUT_ROWS, _COMPLETION_ROWS = 8, 5
_MAX_EVENTS = 1_000
_STYLE = Style.from_dict({"prompt": "bold ansicyan", "chosen": "reverse", "dim": "dim"})


class ScreenContent(NamedTuple):
    """What the conversation wants to be shown around the input line."""

    region: tuple[StyleAndTextTuples, ...] = ()
    status: StyleAndTextTuples = []
    prompt: str = "› "
    answering: bool = False  # keys answer the open question while the input line is empty
    typing_answer: bool = False  # also keys that are no letters, and while the line has text
    choices: Mapping[str, tuple[str, ...]] = {}  # words that may follow commands, known only now
    own: tuple[OwnCommand, ...] = ()  # command files and skills that may be called by /name


class ChatScreen:
    """One per terminal. `events` has what was typed, in order."""

    def __init__(
        self,
        output: TextIO,
        *,
        history: Path | None,
        cwd: Path,
        environment: Mapping[str, str],
        coloured: bool = True,
    ) -> None:
        self.events: asyncio.Queue[ScreenEvent] = asyncio.Queue(_MAX_EVENTS)
        self._content = ScreenContent()
        self._buffer = self._make_buffer(history, cwd, environment)
        self._search = Buffer(multiline=False)
        self._keys = KeyTargets(
            buffer=self._buffer,
            emit=self._emit,
            is_answering=self._is_answering,
            is_typing_answer=lambda: self._content.typing_answer,
            take_image=partial(_take_image, environment),
            suspend=lambda: self.application.suspend(),
        )
        frames = open_frame_output(output)
        self._size = frames.get_size
        self.application = InlineApplication(
            layout=self._make_layout(),
            key_bindings=make_key_bindings(self._keys),
            style=_STYLE,
            output=frames,
            coloured=coloured,
            on_resize=lambda: self._emit(Gestured("resized")),
        )

    def _make_buffer(
        self, history: Path | None, cwd: Path, environment: Mapping[str, str]
    ) -> Buffer:
        return Buffer(
            multiline=True,
            history=None if history is None else FileHistory(str(history)),
            completer=ChatCompleter(
                cwd,
                choices=lambda: self._content.choices,
                own=lambda: self._content.own,
                environment=environment,
            ),
            complete_while_typing=True,
            enable_history_search=False,
            tempfile_suffix=".md",
        )

    def _emit(self, event: ScreenEvent) -> None:
        if not self.events.full():  # nobody types a thousand keys ahead: the rest is noise
            self.events.put_nowait(event)

    def _is_answering(self) -> bool:
        content = self._content
        return content.typing_answer or (content.answering and not self._buffer.text)

    # --- what is shown -----------------------------------------------------------------------

    def show(self, content: ScreenContent, *, above: str = "") -> None:
        """Append `above` (lines that end in `\\r\\n`) to the transcript; draw the rest below it."""
        self._content = content
        if not self.application.is_running:
            return
        if above:
            self.application.print_above(above)
        else:
            self.application.redraw_now(self._wanted_rows())

    def pick(self, head: str) -> None:
        """Offer what may follow these words in the input line, if it is empty."""
        self._keys.pick(head)

    @property
    def notice(self) -> str:
        """What the input line has to say, about a paste for example."""
        return self._keys.notice

    @property
    def has_text(self) -> bool:
        """True if something stands in the input line."""
        return bool(self._buffer.text)

    def room(self) -> tuple[int, int]:
        """Columns, and the rows that the live region may have at most."""
        size = self._size()
        rows = size.rows - self._input_rows() - self._completion_rows() - 2
        return size.columns, max(rows, 0)

    def _wanted_rows(self) -> int:
        region = min(len(self._content.region), self.room()[1])
        return region + self._input_rows() + self._completion_rows() + 1

    def _input_rows(self) -> int:
        size = self._size()
        width = max(size.columns - 3, 1)
        most = max(min(_INPUT_ROWS, size.rows // 2), 1)
        rows = 0
        for line in self._buffer.document.lines:
            rows += len(line) // width + 1
            if rows >= most:
                return most
        return rows

    def _completion_rows(self) -> int:
        state = self._buffer.complete_state
        if state is None:
            return 0
        return min(len(state.completions), _COMPLETION_ROWS, max(self._size().rows - 4, 0))

    # --- the layout --------------------------------------------------------------------------

    def _make_layout(self) -> Layout:
        search = SearchBufferControl(
            self._search, input_processors=[BeforeInput("search: ", "class:dim")]
        )
        control = BufferControl(
            self._buffer,
            input_processors=[BeforeInput(lambda: [("class:prompt", self._content.prompt)])],
            search_buffer_control=search,
            preview_search=True,
        )
        rows = [
            Window(FormattedTextControl(self._region), height=self._region_height),
            Window(control, height=lambda: Dimension.exact(self._input_rows()), wrap_lines=True),
            Window(FormattedTextControl(self._completions), height=self._completions_height),
            ConditionalContainer(Window(search, height=1), is_searching),
            ConditionalContainer(
                Window(FormattedTextControl(lambda: self._content.status), height=1),
                Condition(lambda: not self.application.layout.is_searching),
            ),
        ]
        return Layout(HSplit(rows), focused_element=control)

    def _region(self) -> StyleAndTextTuples:
        shown: StyleAndTextTuples = []
        lines = self._content.region
        room = self.room()[1]
        for index, line in enumerate(lines[max(len(lines) - room, 0) :]):
            shown += [*([("", "\n")] if index else []), *line]
        return shown

    def _region_height(self) -> Dimension:
        return Dimension.exact(min(len(self._content.region), self.room()[1]))

    def _completions_height(self) -> Dimension:
        return Dimension.exact(self._completion_rows())

    def _completions(self) -> StyleAndTextTuples:
        state = self._buffer.complete_state
        rows = self._completion_rows()
        if state is None or rows == 0:
            return []
        index = state.complete_index or 0
        first = max(min(index - rows // 2, len(state.completions) - rows), 0)
        shown: StyleAndTextTuples = []
        for number, one in enumerate(state.completions[first : first + rows], start=first):
            style = "class:chosen" if number == state.complete_index else ""
            about = f"  {one.display_meta_text}" if one.display_meta_text else ""
            shown += [("", "\n")] if shown else []
            shown += [(style, f"  {one.display_text}"), ("class:dim", about)]
        return shown


async def _take_image(environment: Mapping[str, str]) -> Path:
    from .clipboard_image import paste_clipboard_image  # no start waits for its imports

    return await paste_clipboard_image(environment)
