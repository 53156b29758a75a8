"""Clean untrusted text (of models, commands, files) for a terminal.

All text from outside the program passes through here before it reaches a terminal or a log line.
Escape sequences, control characters, direction overrides and invisible characters are removed, so
no output can move the cursor, recolour the screen, hide text or start a new line.
"""

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC with their text
    r"|\x1b[ -/]*[0-~]?"  # other escape sequences
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI as one character
)
_INVISIBLE = (
    "\u00ad\u061c\u115f\u1160\u180e"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff"
)
_FORBIDDEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_INVISIBLE}]")
_BREAKS = re.compile(r"[\s\u2028\u2029]+")
_LINE_ENDS = re.compile(r"\r+\n|[\r\x0b\x0c\x85\u2028\u2029]")


def clean_line(text: str, *, limit: int = 400) -> str:
    """One line of at most `limit` characters; each run of white space becomes one blank.

    Only the first `8 × limit` characters are processed, so a long text costs no more than a short
    one.
    """
    if len(text) > 8 * limit:
        text = text[: 8 * limit]
    if not (text.isascii() and text.isprintable()):
        text = _BREAKS.sub(" ", _ESCAPES.sub("", text))
        text = _FORBIDDEN.sub("", text)
    elif "  " in text:
        text = _BREAKS.sub(" ", text)
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clean_block(text: str) -> str:
    """Several lines: line feeds and tabs stay, a lone carriage return becomes a line feed."""
    if text.isascii() and text.isprintable():
        return text
    return _FORBIDDEN.sub("", _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)))


def first_line(text: str, *, limit: int = 200) -> str:
    """The first non-blank line, cleaned."""
    for line in text[: 8 * limit].splitlines():
        if cleaned := clean_line(line, limit=limit):
            return cleaned
    return ""


def last_line(text: str, *, limit: int = 200) -> str:
    """The last non-blank line, cleaned: the text that is arriving."""
    for line in reversed(text[-8 * limit :].splitlines()):
        if cleaned := clean_line(line, limit=limit):
            return cleaned
    return ""
