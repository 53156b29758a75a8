"""Redacts secrets in errors, recordings and the journal: known keys, and secrets known by shape.

Text is redacted before it is encoded. A known key is hidden wherever it occurs. Secrets recognized
by their shape are described in `secret_rules.toml`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from .redact_forms import MIN_SECRET_CHARS as MIN_SECRET_CHARS
from .redact_forms import is_redactable, json_form, secret_forms
from .redact_rules import Span, load_secret_rules, secret_matcher

REDACTED = "[redacted]"
NOT_HIDDEN = (
    "is too short, or too ordinary a word, to be hidden: it may stand in the journal and be shown"
)
KNOWN_KEY_RULE = "key-of-this-run"  # the name under which known keys are counted

# For errors only: any value that is named as a secret, also in prose and code.
_NAMED_SECRET = re.compile(
    r"(?i)(?P<name>\bbearer\s+|\b(?:api[-_]?key|access[-_]?token|client[-_]?secret|password|"
    r"authorization)[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic)\s+)?)(?P<value>[^\s\"'&,;}<]{6,})"
)
Counts = Counter[str]


class Redactor:
    """Holds the run's keys. Keys may be added while another thread redacts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._forms: tuple[str, ...] = ()
        self._encoded: tuple[bytes, ...] = ()
        self._by_first: dict[str, tuple[str, ...]] = {}
        self.longest = 0
        self.add_secrets(*secrets)

    def add_secrets(self, *secrets: str) -> None:
        """Also hide these from now on, and their forms without surrounding blanks."""
        self._secrets |= {secret.strip() for secret in secrets}
        known = [secret for secret in self._secrets if is_secret(secret)]
        forms = sorted({form for secret in known for form in secret_forms(secret)}, key=len)[::-1]
        self._encoded = tuple(json_form(form) for form in forms)
        firsts = {form[0] for form in forms}
        self._by_first = {
            first: tuple(form for form in forms if form[0] == first) for first in firsts
        }
        self.longest = len(forms[0]) if forms else 0
        self._forms = tuple(forms)

    def redact(self, text: str, counts: Counts | None = None) -> str:
        """The text without known or recognized secrets; the same object if it has none.

        Args:
            text: Decoded text; JSON only if the JSON itself is shown.
            counts: Incremented for each hidden secret, by rule name.
        """
        if len(text) < MIN_SECRET_CHARS:
            return text
        spans = self.find_spans(text)
        if not spans:
            return text
        pieces: list[str] = []
        at = 0
        for span in spans:
            pieces += text[at : span.start], REDACTED
            at = span.end
            if counts is not None:
                counts[span.rule] += 1
        return "".join((*pieces, text[at:]))

    def redact_error(self, text: str) -> str:
        """As `redact`; also hides values that are only named as secrets."""
        return _NAMED_SECRET.sub(_hide_value, self.redact(text))

    def find_spans(self, text: str) -> list[Span]:
        """The parts of a text that must be hidden, in order and without overlap."""
        found = [*self._find_known(text), *secret_matcher().find(text)]
        apart: list[Span] = []
        for span in sorted(found, key=lambda one: (one.start, -one.end)):
            if apart and span.start < apart[-1].end:
                last = apart[-1]
                apart[-1] = last._replace(end=max(last.end, span.end))
            elif span.end > span.start and text[span.start : span.end] != REDACTED:
                apart.append(span)
        return apart

    def may_hold_secret(self, encoded: bytes) -> bool:
        """False only if nothing in this JSON would be hidden. Fast: called for every record."""
        return any(form in encoded for form in self._encoded) or secret_matcher().may_match(encoded)

    def find_partial_secret(self, text: str, at: int) -> int:
        """Where, from `at` on, a known key begins that the text's end cuts off; else the end."""
        by_first = self._by_first
        for place in range(max(at, len(text) - self.longest + 1), len(text)):
            if (forms := by_first.get(text[place])) is not None:
                cut_off = text[place:]
                if any(form.startswith(cut_off) and form != cut_off for form in forms):
                    return place
        return len(text)

    def holds_known_secret(self, data: bytes) -> bool:
        """True if these bytes contain a known key in any form."""
        return any(form.encode("utf-8", "replace") in data for form in self._forms)

    def _find_known(self, text: str) -> Iterable[Span]:
        for form in self._forms:
            at = text.find(form)
            while at >= 0:
                yield Span(at, at + len(form), KNOWN_KEY_RULE)
                at = text.find(form, at + 1)


def is_secret(value: str) -> bool:
    """True if a key is hidden. Very short keys and placeholder words are not."""
    return is_redactable(value) and value.lower() not in load_secret_rules().placeholders


def unhidden_keys(keys: Mapping[str, str]) -> list[str]:
    """The names of keys that are too short or too ordinary to be hidden, without placeholders."""
    placeholders = load_secret_rules().placeholders
    return sorted(
        name
        for name, value in keys.items()
        if value.strip() and not is_redactable(value.strip())
        and value.strip().lower() not in placeholders
    )  # fmt: skip


def _hide_value(found: re.Match[str]) -> str:
    if found["value"].lower() in {"bearer", REDACTED}:
        return found[0]
    return f"{found['name']}{REDACTED}"
