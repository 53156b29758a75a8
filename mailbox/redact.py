"""No secret in an error, a tape or the journal: known keys by value, others by their shape.

The patterns are anchored to well-known prefixes, so that hashes, ids and code stay readable.
"""

import re
from collections.abc import Iterable

REDACTED = "[redacted]"
MIN_SECRET_CHARS = 6  # a shorter "key" would blank out ordinary words

SHAPES = re.compile(
    r"""
      \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}            # OpenAI and many that copied it
    | \bgh[pousr]_[A-Za-z0-9]{20,}                 # GitHub
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bglpat-[A-Za-z0-9_-]{16,}                   # GitLab
    | \bxox[abeprs]-[A-Za-z0-9-]{10,}              # Slack
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                # AWS
    | \bAIza[A-Za-z0-9_-]{30,}                     # Google
    | \bhf_[A-Za-z0-9]{20,}                        # Hugging Face
    | \b(?:gsk|xai|r8|pplx)[_-][A-Za-z0-9]{20,}    # Groq, xAI, Replicate, Perplexity
    | \beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+   # JWT
    | -----BEGIN[ A-Z]*PRIVATE[ ]KEY-----.*?(?:-----END[ A-Z]*PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_SHAPES_IN_JSON = re.compile(
    rb"""
      \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}
    | \bgh[pousr]_[A-Za-z0-9]{20,}
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bglpat-[A-Za-z0-9_-]{16,}
    | \bxox[abeprs]-[A-Za-z0-9-]{10,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bAIza[A-Za-z0-9_-]{30,}
    | \bhf_[A-Za-z0-9]{20,}
    | \b(?:gsk|xai|r8|pplx)[_-][A-Za-z0-9]{20,}
    | \beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+
    | -----BEGIN[ A-Z]*PRIVATE[ ]KEY-----(?:[^"\\]|\\.)*   # to the end of its JSON string
    """,
    re.VERBOSE,
)
_NAMED = re.compile(
    r"(?i)(?P<name>\bbearer\s+|\b(?:api[-_]?key|access[-_]?token|client[-_]?secret|password|"
    r"authorization)[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic)\s+)?)(?P<value>[^\s\"'&,;}<]{6,})"
)
_IN_URL = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^\s/@:]+:[^\s/@]+@")


class Redactor:
    """Knows the run's keys."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets: set[str] = set()
        self.learn(*secrets)

    def learn(self, *secrets: str) -> None:
        """Hide these as well, from now on."""
        self._secrets |= {secret.strip() for secret in secrets}
        known = self._secrets
        longest_first = sorted((s for s in known if len(s) >= MIN_SECRET_CHARS), key=len)[::-1]
        pattern = "|".join(map(re.escape, longest_first))
        self.known = re.compile(pattern) if pattern else None
        self.longest = len(longest_first[0]) if longest_first else 0
        self._longest_first = longest_first
        self._known_bytes = re.compile(pattern.encode()) if pattern else None

    def clean(self, text: str) -> str:
        """The text without anything that is, or looks like, a secret."""
        if self.known is not None:
            text = self.known.sub(REDACTED, text)
        text = SHAPES.sub(REDACTED, text)
        text = _IN_URL.sub(lambda found: f"{found['scheme']}{REDACTED}@", text)
        return _NAMED.sub(_hide_value, text)

    def clean_line(self, line: bytes) -> bytes:
        """A line of JSON without secrets, still JSON; the very same object if there was none."""
        if self._known_bytes is not None and self._known_bytes.search(line):
            line = self._known_bytes.sub(REDACTED.encode(), line)
        if _SHAPES_IN_JSON.search(line):
            line = _SHAPES_IN_JSON.sub(REDACTED.encode(), line)
        return line

    def begun(self, text: str, at: int) -> int:
        """Where, from `at` on, a known key begins that the text's end cuts off; else that end."""
        for place in range(max(at, len(text) - self.longest + 1), len(text)):
            cut_off = text[place:]
            if any(key.startswith(cut_off) and key != cut_off for key in self._longest_first):
                return place
        return len(text)

    def holds(self, data: bytes) -> bool:
        """Whether a known key stands in these bytes."""
        return self._known_bytes is not None and self._known_bytes.search(data) is not None

    def clean_bytes(self, data: bytes) -> bytes:
        """Known keys only; for what is written to a file."""
        if self.known is None:
            return data
        text = data.decode("utf-8", "surrogateescape")
        return self.known.sub(REDACTED, text).encode("utf-8", "surrogateescape")


def _hide_value(found: re.Match[str]) -> str:
    if found["value"].lower() in {"bearer", REDACTED}:
        return found[0]
    return f"{found['name']}{REDACTED}"
