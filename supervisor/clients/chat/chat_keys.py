"""The keys of the conversation. What they do to the line happens here; all else is an event.

While a question is open and the line is empty, letters and digits answer it
(console/approval_prompt.py).
"""

import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, Filter, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.held_programs import held_process_environment

from ...base.own_editor import find_own_editor
from ...request.run_places import project_lookup
from .pasted_text import PastedTexts
from .screen_events import Answered, Gesture, Gestured, ScreenEvent, Submitted

_GESTURES: dict[str, Gesture] = {
    "c-t": "cycle_tree",
    "c-up": "select_up",
    "c-down": "select_down",
    "c-g": "toggle_answering",
    "c-d": "leave",
}


class KeyTargets:
    """What keys act on.

    Args:
        buffer: The input line.
        emit: Takes events, in order.
        is_answering: True if characters answer a question now.
        is_typing_answer: True if all keys belong to a text that answers one.
        take_image: Stores the clipboard's picture. Raises SwarmError with words for the person.
        suspend: Stops the conversation, as Ctrl-Z does.
    """

    def __init__(
        self,
        *,
        buffer: Buffer,
        emit: Callable[[ScreenEvent], None],
        is_answering: Callable[[], bool],
        is_typing_answer: Callable[[], bool],
        take_image: Callable[[], Awaitable[Path]],
        suspend: Callable[[], None],
    ) -> None:
        self.suspend = suspend
        self.buffer, self.emit, self._take_image = buffer, emit, take_image
        self.is_answering, self.is_typing_answer = is_answering, is_typing_answer
        self.pastes = PastedTexts()
        self.notice = ""
        self.picking = ""  # what a list of choices has put into the line

    def submit(self) -> None:
        """Enter: accept a chosen command, continue after a backslash, or send the line.

        A chosen file or word of a command is in the line already, which is sent with it.
        """
        state = self.buffer.complete_state
        text = self.buffer.text
        if state is not None and state.current_completion is not None:
            self.buffer.complete_state = None
            if text.startswith("/") and " " not in text:
                return
        if text.endswith("\\"):
            self.buffer.delete_before_cursor(1)
            self.buffer.insert_text("\n")
            return
        if not text.strip():
            return
        full = self.pastes.expand(text)
        self.pastes.clear()
        self.notice = ""
        if full == text and len(text) <= 4_096:
            self.buffer.append_to_history()
        self.buffer.reset()
        self.emit(Submitted(full))

    def interrupt(self) -> None:
        """Ctrl-C: clear the line; an empty one asks to leave."""
        if self.buffer.text:
            self.buffer.reset()
            self.pastes.clear()
            self.notice = ""
        else:
            self.emit(Gestured("leave"))

    def complete_or_toggle(self) -> None:
        """Tab: the next completion where one can stand, else steer or queue."""
        if self.buffer.complete_state is not None:
            self.buffer.complete_next()
        elif self.buffer.text.startswith("/") or "@" in self.buffer.document.current_line:
            self.buffer.start_completion(select_first=True)
        else:
            self.emit(Gestured("toggle_mode"))

    def escape(self) -> None:
        """Esc: close the completions, else stop the turn."""
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
            if self.buffer.text == self.picking:
                self.buffer.reset()
        else:
            self.emit(Gestured("stop"))

    def pick(self, head: str) -> None:
        """Open the list of what may follow `head` in the line: arrows, Tab and letters choose."""
        if self.buffer.text:
            return  # something was typed meanwhile
        self.picking = head
        self.buffer.document = Document(head)
        self.buffer.start_completion(select_first=False)

    def paste(self, raw: str) -> None:
        """Text from the clipboard, as one piece."""
        taken = self.pastes.add(raw)
        self.notice = taken.notice
        self.buffer.insert_text(taken.inline)
        self.emit(Gestured("pasted"))

    def edit(self) -> None:
        """Ctrl-X Ctrl-E: write the line in an editor. It, and what it starts, come from folders
        that agents do not write; the person is told why another one is not started.
        """
        lookup = project_lookup(os.environ, str(Path.cwd()))
        try:
            find_own_editor(os.environ, lookup)
        except SwarmError as error:
            self.notice = str(error)
            self.emit(Gestured("pasted"))
            return
        self.notice = ""
        stack = ExitStack()
        stack.enter_context(held_process_environment(lookup))
        self.buffer.open_in_editor().add_done_callback(lambda _: stack.close())

    async def paste_image(self) -> None:
        """Ctrl-V: name the clipboard's picture in the line."""
        try:
            path = await self._take_image()
        except SwarmError as error:
            self.notice = str(error)
        else:
            self.notice = ""
            self.buffer.insert_text(f"@{path} ")
        self.emit(Gestured("pasted"))


def make_key_bindings(targets: KeyTargets) -> KeyBindings:
    """The bindings above prompt_toolkit's own (Emacs) ones."""
    keys = KeyBindings()
    free = ~is_searching
    buffer = targets.buffer
    _bind(keys, ("enter",), free, targets.submit)
    _bind(keys, ("c-c",), free, targets.interrupt)
    _bind(keys, ("tab",), free, targets.complete_or_toggle)
    _bind_lone_escape(keys, free, targets.escape)
    _bind(keys, ("c-z",), free, targets.suspend)
    _bind(keys, ("c-j",), free, lambda: buffer.insert_text("\n"))
    _bind(keys, ("escape", "enter"), free, lambda: buffer.insert_text("\n"))
    _bind(keys, ("c-x", "c-e"), free, targets.edit)
    _bind(keys, ("c-v",), free, lambda: _in_background(targets.paste_image()))
    _bind(keys, ("c-l",), free, lambda: get_app().renderer.clear())
    for key, gesture in _GESTURES.items():
        _bind(keys, (key,), free, partial(targets.emit, Gestured(gesture)))

    def paste(event: KeyPressEvent) -> None:
        targets.paste(event.data)

    keys.add(Keys.BracketedPaste, filter=free)(paste)
    _bind_answers(keys, targets, free)
    return keys


def _bind(
    keys: KeyBindings, sequence: tuple[str, ...], when: Filter, act: Callable[[], None]
) -> None:
    def handle(event: KeyPressEvent) -> None:
        act()

    keys.add(*sequence, filter=when)(handle)


def _bind_lone_escape(keys: KeyBindings, when: Filter, act: Callable[[], None]) -> None:
    """Esc that was typed alone: before another key it has no text (terminal_keys.py)."""

    def handle(event: KeyPressEvent) -> None:
        if event.data:
            act()

    keys.add("escape", filter=when)(handle)


def _bind_answers(keys: KeyBindings, targets: KeyTargets, free: Filter) -> None:
    def answer(event: KeyPressEvent) -> None:
        if len(event.data) == 1 and event.data.isprintable():
            targets.emit(Answered(event.data))

    keys.add(Keys.Any, filter=Condition(targets.is_answering) & free)(answer)
    typing = Condition(targets.is_typing_answer) & free
    for key in ("enter", "backspace"):
        _bind(keys, (key,), typing, partial(targets.emit, Answered(key)))
    _bind_lone_escape(keys, typing, partial(targets.emit, Answered("esc")))


def _in_background(work: Coroutine[object, object, None]) -> None:
    get_app().create_background_task(work)
