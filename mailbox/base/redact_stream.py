"""Redaction of streamed text, also for secrets that span two pieces.

No part of a possible secret is shown before it is known not to be one. Only what may become a
secret is held back; ordinary words pass at once. The stream shows what redacting the whole text
would show, or less.
"""

import re

from .redact import MIN_SECRET_CHARS, REDACTED, Redactor
from .redact_rules import (
    KEY_FOOTER,
    KEY_HEADER,
    KEY_HEADER_LINE,
    KEY_MATERIAL,
    Span,
    is_word_start,
    secret_matcher,
)

MAX_HELD_CHARS = 4_096  # or the length of the longest known key; a longer possible secret is hidden

_CONTEXT_CHARS = 160  # of shown text: it may hold a name that makes the following text a secret
_TOKEN_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+/=-"
_WORD_REST = re.compile(r"\A[^\s\"'`]*")
_KEY_BEGINNING = re.compile(rf"{KEY_HEADER}[ A-Z0-9]*-{{0,4}}\Z")
_MATERIAL_CHARS = 80  # after so many characters it is clear whether a private key follows
_END_CHARS = 64  # more than the length of a private key's last line


class RedactedStream:
    """One stream of text. Pass pieces to `push` and show the results; call `finish` at the end."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._context = ""  # the end of the settled text, unredacted
        self._held = ""
        self._is_skipping = False  # inside a long secret: drop what belongs to it
        self._in_key = False  # inside a private key: only its end is searched for

    def push(self, text: str) -> str:
        """Add a piece; return what may be shown now."""
        if self._in_key:
            text = self._skip_key(text)
        elif self._is_skipping:
            rest = _WORD_REST.sub("", text, count=1)
            self._is_skipping = not rest
            text = rest
        if not text:
            return ""
        at = len(self._context)
        return self._settle(self._context + self._held + text, at)

    def finish(self) -> str:
        """End the stream: a few held characters are shown; more might be most of a secret."""
        held, self._held = ("" if self._in_key else self._held), ""
        if len(held) < MIN_SECRET_CHARS:
            return held
        whole, at = self._context + held, len(self._context)
        begun = min(
            _word_start(whole, at),
            _private_key_start(whole, at),
            self._redactor.find_partial_secret(whole, at),
        )
        spans = self._redactor.find_spans(whole)
        begun = _before_span(spans, begun, at)
        cut_off = whole[begun:]
        shown = _redacted_part(whole, spans, at, begun)
        return shown + (cut_off if len(cut_off) < MIN_SECRET_CHARS else REDACTED)

    def _settle(self, whole: str, at: int) -> str:
        spans = self._redactor.find_spans(whole)
        end = _before_span(spans, self._partial_start(whole, at), at)
        shown = _redacted_part(whole, spans, at, end)
        self._held = whole[end:]
        self._context = whole[max(0, end - _CONTEXT_CHARS) : end]
        if len(self._held) > max(MAX_HELD_CHARS, self._redactor.longest):
            shown += REDACTED
            self._in_key = self._held.startswith(KEY_HEADER)
            self._is_skipping = not self._in_key
            self._context, self._held = "", (self._held[-_END_CHARS:] if self._in_key else "")
        return shown

    def _partial_start(self, whole: str, at: int) -> int:
        """Where text begins that the next piece may turn into a secret; else the text's length."""
        return min(
            len(whole),
            _token_start(whole, at),
            _private_key_start(whole, at),
            self._redactor.find_partial_secret(whole, at),
            *(max(at, place) for place in secret_matcher().find_partial_values(whole, 0)),
        )

    def _skip_key(self, text: str) -> str:
        """What follows the private key; "" until its end is found."""
        whole = self._held + text
        found = KEY_FOOTER.search(whole)
        self._in_key = found is None
        self._held = whole[-_END_CHARS:] if found is None else ""
        return "" if found is None else whole[found.end() :]


def _before_span(spans: list[Span], end: int, at: int) -> int:
    """`end`, or the start of a span that `end` would cut."""
    for span in spans:
        if span.start < end < span.end:
            return max(at, span.start)
    return end


def _redacted_part(whole: str, spans: list[Span], at: int, end: int) -> str:
    """The part from `at` to `end`, redacted."""
    pieces: list[str] = []
    for span in spans:
        if span.end <= at:
            continue
        if span.start >= end:
            break
        pieces += whole[at : max(at, span.start)], REDACTED
        at = span.end
    return "".join((*pieces, whole[at:end]))


def _word_start(whole: str, at: int) -> int:
    """As `_token_start`, for a text that has ended: a prefix inside a word does not count."""
    place = max(at, len(whole.rstrip(_TOKEN_CHARS)))
    while (place := secret_matcher().find_prefix(whole, place)) < len(whole):
        if is_word_start(whole, place):
            return place
        place += 1
    return place


def _token_start(whole: str, at: int) -> int:
    """Where a token, or a truncated token prefix, begins that reaches the text's end."""
    run = max(at, len(whole.rstrip(_TOKEN_CHARS)))
    return min(
        secret_matcher().find_prefix(whole, run), secret_matcher().find_partial_prefix(whole, at)
    )


def _private_key_start(whole: str, at: int) -> int:
    """Where an unfinished private key begins. Text that only mentions one does not count."""
    if KEY_HEADER not in whole[at:]:
        return len(whole)
    last_footer = max((one.start() for one in KEY_FOOTER.finditer(whole, at)), default=-1)
    for found in KEY_HEADER_LINE.finditer(whole, at):
        if last_footer >= found.end():
            continue
        is_early = len(whole) - found.end() < _MATERIAL_CHARS
        if is_early or KEY_MATERIAL.match(whole, found.end()) is not None:
            return found.start()
    last = _KEY_BEGINNING.search(whole, max(at, whole.rfind(KEY_HEADER)))
    return len(whole) if last is None else last.start()
