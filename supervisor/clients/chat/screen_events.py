"""What a person did at the keyboard, as the screen tells it to the conversation."""

from typing import Literal, NamedTuple, TypeAlias

Gesture = Literal[
    "stop", "leave", "cycle_tree", "select_up", "select_down", "toggle_mode", "toggle_answering",
    "resized", "pasted",
]  # fmt: skip


class Submitted(NamedTuple):
    """A finished line; long pastes stand in it completely."""

    text: str


class Answered(NamedTuple):
    """A key that belongs to the open question: a character, `enter`, `esc` or `backspace`."""

    key: str


class Gestured(NamedTuple):
    """A key that is neither text nor an answer."""

    gesture: Gesture


ScreenEvent: TypeAlias = Submitted | Answered | Gestured
