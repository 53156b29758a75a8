"""Redacts secrets in errors, recordings and the journal: known keys, and secrets known by shape.

Text is redacted before it is encoded. A known key is hidden wherever it occurs, in every form that
reveals it: as it is, escaped, or encoded. `secret_rules.toml` describes secrets that are recognized
by their shape.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

import msgspec

from .redact_rules import Span, load_secret_rules, secret_matcher

MIN_SECRET_CHARS = 6
_MIN_LOWERCASE_CHARS = 8  # a shorter word of only lowercase letters is ordinary
_MIN_BASE64_CHARS = 7  # of the part that does not depend on the key's position in a text


def is_redactable(secret: str) -> bool:
    """True if hiding this keeps the rest readable: it is no short, ordinary word.

    At least six characters; at least eight if they are all lowercase letters.
    """
    least = _MIN_LOWERCASE_CHARS if secret.isalpha() and secret.islower() else MIN_SECRET_CHARS
    return len(secret) >= least


def secret_forms(secret: str) -> tuple[str, ...]:
    """All forms of a key to search for, the longest first.

    Base64 adds three forms per alphabet, because a key may start at any of three byte offsets.
    Characters that depend on neighbouring bytes are left out.
    """
    data = secret.encode("utf-8", "surrogatepass")
    forms = {secret, data.hex(), data.hex().upper(), *_escaped(secret)}
    for encode in (b64encode, urlsafe_b64encode):
        forms.update(_base64(data, encode(b"\0" * lead + data).decode(), lead) for lead in range(3))
    return tuple(sorted((form for form in forms if form), key=len)[::-1])


def _escaped(secret: str) -> Iterator[str]:
    plain = secret.encode("utf-8", "replace").decode()
    once = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    for text in once:
        yield text
        yield text.replace("/", "\\/")
        # JSON within JSON, as in the arguments of a call that writes JSON
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
    for text in (quote(plain, safe=""), quote(plain), quote_plus(plain)):
        yield text
        yield "".join(_lowercase_escapes(text))
    bare = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield bare
    yield bare.replace('"', "&quot;").replace("'", "&#x27;")
    yield bare.replace('"', "&quot;").replace("'", "&#39;")
    yield secret.replace("'", "'\\''")
    yield secret.replace("'", "'\"'\"'")
    yield repr(secret)[1:-1]


def _lowercase_escapes(text: str) -> Iterator[str]:
    """Lower-case the percent escapes only: %2F as %2f."""
    pieces = text.split("%")
    yield pieces[0]
    for piece in pieces[1:]:
        yield f"%{piece[:2].lower()}{piece[2:]}"


def _base64(data: bytes, encoded: str, lead: int) -> str:
    """The characters of `encoded` that depend on the key alone; "" if they are too few."""
    start = -(-lead * 8 // 6)
    end = (lead + len(data)) * 8 // 6
    return encoded[start:end] if end - start >= _MIN_BASE64_CHARS else ""


def json_form(form: str) -> bytes:
    """The form as our encoder writes it inside a JSON string."""
    return msgspec.json.encode(form.encode("utf-8", "replace").decode())[1:-1]


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
