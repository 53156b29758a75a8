"""What the sequences of terminals mean as keys of prompt_toolkit.

prompt_toolkit takes a sequence that it does not know for Esc and letters. Here only a lone Esc is
Esc; both forms in which terminals tell of keys with modifiers (CSI u, and modifyOtherKeys) are
read; and what means nothing here is left out as a whole.
"""

import select
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from .key_sequences import ESC, PASTE_BEGIN, KeySequences

_SHIFT, _ALT, _CTRL, _OTHERS, _CAPS = 1, 2, 4, 8 | 16 | 32, 64
_LOCKS = 64 | 128
_RELEASED = 3  # the type of an event
_KEYPAD = dict(zip(range(57_399, 57_414), "0123456789./*-+", strict=True)) | {57_415: "="}
_KEYPAD_KEYS = {
    57_417: Keys.Left, 57_418: Keys.Right, 57_419: Keys.Up, 57_420: Keys.Down,
    57_421: Keys.PageUp, 57_422: Keys.PageDown, 57_423: Keys.Home, 57_424: Keys.End,
    57_425: Keys.Insert, 57_426: Keys.Delete,
}  # fmt: skip
_APPLICATION_KEYPAD = dict(zip("jklmnopqrstuvwxyX", "*+,-./0123456789=", strict=True))
_FINALS = "ABCDFHPQS"  # of keys that have modifiers in their second number
_BIG_READ_CHARS = 1_000
_READ_BYTES = 64 << 10


def keys_of(part: str) -> tuple[KeyPress, ...]:
    """The keys that one letter, sequence or paste stands for; () if it means nothing here."""
    if part.startswith(PASTE_BEGIN):
        return (KeyPress(Keys.BracketedPaste, part.removeprefix(PASTE_BEGIN)),)
    if not part.startswith(ESC) or part == ESC:
        return (_letter(part),)
    if part.startswith("\x1b["):
        return _csi_keys(part)
    if part.startswith("\x1bO"):
        return _named(part) or _keypad(part)
    if part.startswith("\x1b\x1b"):
        return _with_alt(keys_of(part[1:]))
    return _with_alt((_letter(part[1]),)) if len(part) == 2 else ()


def _letter(sign: str) -> KeyPress:
    named = ANSI_SEQUENCES.get(sign)
    return KeyPress(named if isinstance(named, Keys) else sign, sign)


def _with_alt(keys: tuple[KeyPress, ...]) -> tuple[KeyPress, ...]:
    """Esc before a key, without texts: it is no lone Esc, and an unknown key types nothing."""
    if not keys:
        return ()
    return (KeyPress(Keys.Escape, ""), *(KeyPress(key.key, "") for key in keys))


def _named(sequence: str) -> tuple[KeyPress, ...]:
    """The keys that prompt_toolkit has for a sequence, without mouse and replies."""
    named = ANSI_SEQUENCES.get(sequence, ())
    keys = named if isinstance(named, tuple) else (named,)
    known = [key for key in keys if key not in (Keys.Ignore, Keys.CPRResponse)]
    return tuple(KeyPress(key, "") for key in known)


def _keypad(sequence: str) -> tuple[KeyPress, ...]:
    if sequence == "\x1bOM":
        return (_letter("\r"),)
    sign = _APPLICATION_KEYPAD.get(sequence[2:])
    return () if sign is None else (_letter(sign),)


def _csi_keys(sequence: str) -> tuple[KeyPress, ...]:
    numbers, final = _numbers(sequence[2:-1]), sequence[-1]
    if numbers is None:
        return _named(sequence)  # a reply, or a report of the mouse, has no name
    if final == "u" and numbers:
        return _coded_key(numbers)
    if final == "~" and _at(numbers, 0) == 27 and len(numbers) == 3:  # modifyOtherKeys
        return _coded_key([numbers[2], numbers[1]])
    if final != "~" and final not in _FINALS:
        return _named(sequence)
    modifiers = _modifiers(numbers)
    if modifiers is None:
        return ()
    first = f"{_at(numbers, 0)}" if final == "~" else "1"
    if not modifiers:
        return _named(f"\x1b[{first}~" if final == "~" else f"\x1b[{final}") or _named(sequence)
    return _named(f"\x1b[{first};{modifiers + 1}{final}")


def _numbers(text: str) -> list[list[int]] | None:
    """`97:65;2` as [[97, 65], [2]]; None for anything but digits, colons and semicolons."""
    if not text:
        return []
    if not set(text) <= set("0123456789:;") or len(text) > 200:
        return None
    return [[int(one or 0) for one in group.split(":")] for group in text.split(";")]


def _at(numbers: list[list[int]], group: int, place: int = 0) -> int:
    found = numbers[group] if group < len(numbers) else []
    return found[place] if place < len(found) else 0


def _modifiers(numbers: list[list[int]]) -> int | None:
    """Shift, Alt and Ctrl as bits; None for a key that was let go, or one of a window manager."""
    held = max(_at(numbers, 1) - 1, 0)
    if _at(numbers, 1, 1) == _RELEASED or held & _OTHERS:
        return None
    return held & ~_LOCKS


def _coded_key(numbers: list[list[int]]) -> tuple[KeyPress, ...]:
    """A key by the code of its letter."""
    code, modifiers = _at(numbers, 0), _modifiers(numbers)
    if modifiers is None:
        return ()
    if code in (13, 57_414):
        return (_letter("\n" if modifiers else "\r"),)
    if code == 9:
        return (KeyPress(Keys.BackTab, ""),) if modifiers & _SHIFT else (_letter("\t"),)
    if code == 27:
        return () if modifiers else (_letter(ESC),)
    if code in (8, 127):
        erased = (_letter("\x7f"),)
        return _with_alt(erased) if modifiers & (_ALT | _CTRL) else erased
    if code in _KEYPAD_KEYS:
        return (KeyPress(_KEYPAD_KEYS[code], ""),)
    if text := _typed_text(numbers, code, modifiers):
        key = _control(text) if modifiers & _CTRL else _letter(text)
        return () if key is None else (_with_alt((key,)) if modifiers & _ALT else (key,))
    return ()


def _typed_text(numbers: list[list[int]], code: int, modifiers: int) -> str:
    """The letter of a key; "" if it has none."""
    if code in _KEYPAD:
        return _KEYPAD[code]
    said = numbers[2] if len(numbers) > 2 else []
    shifted = _at(numbers, 0, 1) if modifiers & _SHIFT else 0
    if len(said) == 1 and said[0] and not modifiers & _CTRL:
        return chr(said[0]) if _is_letter(said[0]) else ""
    if shifted:
        code = shifted
    if not _is_letter(code):
        return ""
    letter = chr(code)
    is_upper = bool(modifiers & _SHIFT) != bool(max(_at(numbers, 1) - 1, 0) & _CAPS)
    return letter.upper() if is_upper and not shifted and len(letter.upper()) == 1 else letter


def _is_letter(code: int) -> bool:
    """False for controls, and for keys that have a code in the private area."""
    return 32 <= code < 0x110000 and not (127 <= code < 160 or 0xD800 <= code < 0xF900)


def _control(letter: str) -> KeyPress | None:
    """Ctrl and a letter, as the character that terminals always had for it."""
    if letter == " ":
        return _letter("\x00")
    upper = letter.upper()
    return _letter(chr(ord(upper) & 0x1F)) if "@" <= upper <= "_" else None


class _KeyParser:
    """Has the shape of prompt_toolkit's parser, which `Vt100Input` feeds."""

    def __init__(self, take: Callable[[KeyPress], None]) -> None:
        self._take, self._sequences = take, KeySequences()

    def feed(self, data: str) -> None:
        self._give(self._sequences.feed(data))

    def flush(self) -> None:
        self._give(self._sequences.flush())

    def _give(self, parts: Iterator[str]) -> None:
        for part in parts:
            for key in keys_of(part):
                self._take(key)


class ChatInput(Vt100Input):
    """The keyboard of the conversation."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self._keys: list[KeyPress] = []
        self._parser = _KeyParser(self._keys.append)

    def read_keys(self) -> list[KeyPress]:
        """What was typed. Enter with more behind it, which nobody typed so fast, is a new line."""
        data = self.stdin_reader.read(_READ_BYTES)
        self._parser.feed(data)
        keys, self._keys[:] = list(self._keys), []
        is_cut = len(data) > _BIG_READ_CHARS or (
            bool(keys and keys[-1].data == "\r") and _has_more(self.fileno())
        )
        last = len(keys) if is_cut else len(keys) - 1
        return [
            _letter("\n") if key.data == "\r" and index < last else key
            for index, key in enumerate(keys)
        ]

    def flush_keys(self) -> list[KeyPress]:
        """A lone Esc, if nothing came behind it."""
        self._parser.flush()
        keys, self._keys[:] = list(self._keys), []
        return keys


def open_chat_input() -> ChatInput | None:
    """The keyboard, if standard input is a terminal."""
    stdin = sys.stdin
    return ChatInput(stdin) if stdin is not None and stdin.isatty() else None


def _has_more(file: int) -> bool:
    """True if something can be read now."""
    try:
        return bool(select.select([file], [], [], 0)[0])
    except OSError:
        return False
