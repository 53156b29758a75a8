"""Text that people write: decoded by its mark, and what is no text is named by its byte. Pure.

Editors and shells of Windows save UTF-8 with a mark in front (BOM), UTF-16 or UTF-32. The mark
says which; it is no part of the text. Without a mark a file is UTF-8. Whoever reads a task, an
AGENTS.md, a skill, a command, a role, or JSON that a person wrote, decodes it here.
"""

import codecs
import re
from typing import TypeVar, cast

import msgspec

from ..protocol.values.base import Value
from .bounded_formats import decode_json_as
from .errors import UsageError

T = TypeVar("T")
# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TITLES = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8", "utf-16": "UTF-16", "utf-32": "UTF-32"}
_MARK = "\ufeff"
_JSON_BYTE = re.compile(r" \(byte (\d+)\)\Z")
_JSON_COMMENTS = ("//", "/*", "#")


class NotText(UsageError):
    """Bytes that are no text; `byte` counts from 0, `line` and `column` from 1."""

    def __init__(self, what: str, *, encoding: str, byte: int, before: str) -> None:
        self.what, self.encoding, self.byte = what, encoding, byte
        self.line, self.column = _end_of(before)
        super().__init__(f"line {self.line}: {what} at byte {byte}")


class WrittenText(Value):
    """A text, and what is wrong with its bytes; the wrong ones are U+FFFD in it."""

    text: str
    problem: str = ""


def encoding_of(data: bytes) -> str:
    """The name of the codec that the file's mark stands for; it takes the mark away."""
    return next((codec for mark, codec in _MARKS if data.startswith(mark)), "utf-8")


def decode_written(data: bytes) -> str:
    """The text without its mark. Raises NotText."""
    encoding = encoding_of(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _not_text(data, encoding, error) from error
    if "\0" in text:
        raise _has_nul(text, encoding)
    return text.lstrip(_MARK)


def decode_leniently(data: bytes, *, is_whole: bool = True) -> WrittenText:
    """As `decode_written`, for a text that is worth reading though some bytes of it are wrong.

    `is_whole`: False if a file's end was not read, so that its last character may be cut.
    """
    encoding = encoding_of(data)
    decoder, problem = codecs.getincrementaldecoder(encoding), ""
    try:
        text = decoder().decode(data, is_whole)
    except UnicodeDecodeError as error:
        problem = str(_not_text(data, encoding, error))
        text = decoder("replace").decode(data, is_whole)
    if "\0" in text:
        problem = problem or str(_has_nul(text, encoding))
        text = text.replace("\0", "\ufffd")
    return WrittenText(text=text.lstrip(_MARK), problem=problem)


def _not_text(data: bytes, encoding: str, error: UnicodeDecodeError) -> NotText:
    byte = error.start + len(data) - len(error.object)  # one codec does not count the mark
    before = data[:byte].decode(encoding, "replace")
    return NotText(f"not {_TITLES[encoding]}", encoding=encoding, byte=byte, before=before)


def _has_nul(text: str, encoding: str) -> NotText:
    at = text.index("\0")
    is_wide = encoding == "utf-8" and text.count("\0") * 4 > len(text)
    hint = " (UTF-16 without its mark? save it as UTF-8)" if is_wide else ""
    byte = len(text[:at].encode("utf-8" if encoding == "utf-8-sig" else encoding))
    byte += len(codecs.BOM_UTF8) if encoding == "utf-8-sig" else 0
    what = f"it is not text: NUL characters{hint}"
    return NotText(what, encoding=encoding, byte=byte, before=text[:at])


def _end_of(text: str) -> tuple[int, int]:
    """Line and column of what follows this text."""
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def read_written_json(data: bytes, source: str, kind: type[T]) -> T:
    """JSON that a person wrote, as `kind`. Raises UsageError with source, line and column."""
    try:
        text = decode_written(data)
    except NotText as error:
        raise UsageError(
            f"{source}, line {error.line}, column {error.column}: {error.what}"
        ) from error
    try:
        return decode_json_as(text, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {error}") from error
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise UsageError(_json_problem(text, source, str(error))) from error


def read_written_object(data: bytes, source: str) -> dict[str, object]:
    """A JSON object that a person wrote. Raises UsageError with source, line and column."""
    value = read_written_json(data, source, object)
    if not isinstance(value, dict):
        raise UsageError(f"{source}, line 1: must be a JSON object")
    return cast("dict[str, object]", value)


def _json_problem(text: str, source: str, said: str) -> str:
    if not text.strip():
        return f"{source}: not valid JSON: it is empty"
    found = _JSON_BYTE.search(said)
    what = said[: found.start()] if found else said
    what = what.removeprefix("JSON is malformed: ")
    if found is None:  # cut off, nested too deeply, or no number that can be read
        line, column = _end_of(text.rstrip())
        at = f", line {line}, column {column}" if "truncated" in said else ""
        what = "it ends too soon" if at else what
        return f"{source}{at}: not valid JSON: {what}"
    before = text.encode()[: int(found[1])].decode("utf-8", "ignore")
    line, column = _end_of(before)
    if text[len(before) :].startswith(_JSON_COMMENTS):
        what = "JSON has no comments; take them out"
    return f"{source}, line {line}, column {column}: not valid JSON: {what}"
