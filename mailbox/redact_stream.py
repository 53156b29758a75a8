"""Text that is shown piece by piece, without the secret that two pieces share.

Rule guarded: nothing of a secret is shown before it is known whether it is one. What may still
become one is held back, and no more than that: ordinary words pass as they come.
"""

import re

from .redact import MIN_SECRET_CHARS, REDACTED, SHAPES, Redactor

MOST_HELD_CHARS = 4_096  # or the longest known key; a longer beginning counts as a secret

_TOKEN_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_REST_OF_SHAPE = re.compile(r"\A[A-Za-z0-9_-]*")
_REST_OF_TOKEN = re.compile(r"\A[A-Za-z0-9_.-]*")
_KEY_BEGINS = "-----BEGIN"
_KEY_BEGUN = re.compile(rf"{_KEY_BEGINS}[ A-Z]*-{{0,4}}\Z")
_KEY_ENDS = re.compile(r"-----END[ A-Z]*PRIVATE KEY-----")
_END_CHARS = 64  # more than the line that ends a private key
_STARTS = (
    *("sk-", "pk-", "rk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "AKIA", "ASIA", "AIza", "hf_"),
    *("gsk_", "gsk-", "xai_", "xai-", "r8_", "r8-", "pplx_", "pplx-", "eyJ"),
)
_START = re.compile(rf"\b(?:{'|'.join(_STARTS)})")
_FIRST_LETTERS = {
    word[:end]: None for word in (*_STARTS, _KEY_BEGINS) for end in range(1, len(word))
}
_STARTING = re.compile(
    rf"(?:\b|(?=-))(?:{'|'.join(sorted(map(re.escape, _FIRST_LETTERS), key=len)[::-1])})\Z"
)
_MOST_FIRST_LETTERS = max(map(len, _FIRST_LETTERS))


class RedactedStream:
    """One stream of text. `push` what comes and show what it returns; `rest` at its end."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._shown = ""  # the last character that was shown: is what follows a word's beginning?
        self._held = ""
        self._skipped: re.Pattern[str] | None = None  # a secret goes on: leave out what fits
        self._in_key = False  # of a private key only its end is looked for

    def push(self, text: str) -> str:
        """What may be shown now."""
        if self._in_key:
            text = self._skip_key(text)
        elif self._skipped is not None:
            text = self._skipped.sub("", text, count=1)
            self._skipped = None if text else self._skipped
        if not text:
            return ""
        before = len(self._shown)
        shown = self._clean(self._shown + self._held + text, before)
        self._shown = (self._shown + shown)[-1:]
        return shown

    def rest(self) -> str:
        """The end has come: a few letters are shown, more might be most of a secret."""
        held, self._held = ("" if self._in_key else self._held), ""
        return held if len(held) < MIN_SECRET_CHARS else REDACTED

    def _clean(self, whole: str, at: int) -> str:
        pieces: list[str] = []
        begun = self._begun(whole, at)
        for found in self._secrets_in(whole, at):
            goes_on = found.re is SHAPES and found.end() == len(whole)
            if begun <= found.start() - goes_on:
                break  # it may be the beginning of a longer one
            if found.start() >= at:  # else it lies over the one before
                pieces += whole[at : found.start()], REDACTED
            at = max(at, found.end())
            begun = begun if begun >= at else self._begun(whole, at)
            if goes_on:
                self._goes_on(found[0])
        pieces.append(whole[at:begun])
        self._held = whole[-_END_CHARS:] if self._in_key else whole[begun:]
        if len(self._held) > max(MOST_HELD_CHARS, self._redactor.longest):
            pieces.append(REDACTED)
            self._held, self._skipped = "", _REST_OF_TOKEN
        return "".join(pieces)

    def _secrets_in(self, whole: str, at: int) -> list[re.Match[str]]:
        """Known keys and what has the shape of one, in order; they may overlap."""
        known = self._redactor.known
        found = [*SHAPES.finditer(whole, at), *(known.finditer(whole, at) if known else ())]
        return sorted(found, key=lambda one: one.start())

    def _begun(self, whole: str, at: int) -> int:
        """Where something begins that the next piece may make a secret; else the text's end."""
        token = _START.search(whole, max(at, len(whole.rstrip(_TOKEN_CHARS))))
        letters = _STARTING.search(whole, max(at, len(whole) - _MOST_FIRST_LETTERS))
        key = _KEY_BEGUN.search(whole, max(at, whole.rfind(_KEY_BEGINS)))
        places = [found.start() for found in (token, letters, key) if found is not None]
        return min([*places, self._redactor.begun(whole, at)])

    def _goes_on(self, secret: str) -> None:
        if secret.startswith(_KEY_BEGINS):
            self._in_key = _KEY_ENDS.search(secret) is None
        else:
            self._skipped = _REST_OF_SHAPE

    def _skip_key(self, text: str) -> str:
        """What comes after the private key; nothing while its end was not seen."""
        whole = self._held + text
        found = _KEY_ENDS.search(whole)
        self._in_key = found is None
        self._held = whole[-_END_CHARS:] if found is None else ""
        return "" if found is None else whole[found.end() :]
