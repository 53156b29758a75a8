"""A memory: one fact in one line, of one kind, with where it is from. Pure."""

import hashlib
import re
from typing import Literal, NamedTuple

from swarm.mailbox.protocol.values.base import Value

MAX_FACT_CHARS = 400
GLOBAL = "global"  # the set of all projects
FactKind = Literal["preference", "command", "failure", "finding", "note"]
FACT_ID = re.compile(r"m[0-9a-f]{8}")
PROJECT = re.compile(r"[0-9a-f]{16}|global")  # the name of its folder, too
_WORD = re.compile(r"[\w./-]+")
_SECRETS = (  # Codex's patterns for memories, in its order
    (re.compile(r"sk-[A-Za-z0-9]{20,}"), "[redacted]"),
    (re.compile(r"\bAKIA[A-Z0-9]{16}\b"), "[redacted]"),
    (re.compile(r"\b(Bearer)\s+[A-Za-z0-9._-]{16,}", re.IGNORECASE), r"\1 [redacted]"),
    (
        re.compile(
            r"\b(\w*(?:api[_-]?key|token|secret|password|passwd)\w*\s*[:=]\s*[\"']?)(?!\[redacted\])"
            r"[^\s\"']{8,}",
            re.IGNORECASE,
        ),
        r"\1[redacted]",
    ),
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NEAR = 0.8  # so many of the words of two facts are the same: they say the same


class Fact(Value):
    """What a run learned. `place`: a file of the project, as `file:12-40`, or ""."""

    fact_id: str
    project: str
    kind: FactKind
    text: str
    place: str = ""
    run_id: str = ""  # the first run that learned it; "" for a person's own note
    created_at: float = 0.0
    runs: int = 1
    uses: int = 0
    last_used: float | None = None
    pinned: bool = False
    stale: str = ""  # why it is not true any more
    by_person: bool = False
    origin: str = ""  # the folder where it was learned; "" for a person's own note
    untrusted: bool = False  # the person has not trusted that folder

    def is_told_in(self, folder: str) -> bool:
        """True for agents that work in this folder, "" if it is no folder in particular.

        What came from a folder that nobody trusted is told there alone. A person's own words, and
        what the person pinned, are told wherever the set is read.
        """
        is_own = self.pinned or self.by_person or self.kind in ("preference", "note")
        return not self.untrusted or is_own or (bool(folder) and self.origin == folder)


class Output(Value):
    """What one run gave: the text of its memories, and a summary."""

    run_id: str
    project: str
    cwd: str
    updated_at: float
    raw_memory: str
    summary: str
    slug: str
    method: str  # "model", or "facts": found without one
    uses: int = 0
    last_used: float | None = None
    is_selected: bool = False
    selected_updated_at: float | None = None
    origin: str = ""  # as of a fact
    untrusted: bool = False

    def is_told_in(self, folder: str) -> bool:
        """As of a fact."""
        return not self.untrusted or (bool(folder) and self.origin == folder)


def make_fact(
    project: str, kind: FactKind, text: str, *, place: str = "", run_id: str = "", now: float = 0.0
) -> Fact:
    """A fact with its id: the same for the same words in the same project."""
    line = one_line(text)[:MAX_FACT_CHARS]
    return Fact(
        fact_id=fact_id(project, line),
        project=project,
        kind=kind,
        text=line,
        place=one_line(place)[:MAX_FACT_CHARS],
        run_id=run_id,
        created_at=now,
    )


def fact_id(project: str, text: str) -> str:
    key = f"{project}\0{' '.join(words_of(text))}"
    return f"m{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def hide_secrets(text: str) -> str:
    """The text without what looks like a key or a password, whatever the journal let pass."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def one_line(text: str) -> str:
    """The text in one line, without signs that are not printed."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def forget_marks(project: str, text: str) -> tuple[bytes, frozenset[bytes]]:
    """What is kept of a forgotten fact: a mark of the whole, and one of each word.

    The words themselves are not kept. The marks only tell that the same words come again.
    """
    words = words_of(text)
    whole = _mark(project, " ".join(words))
    return whole, frozenset(_mark(project, word) for word in words)


class Forgotten(NamedTuple):
    """What a person wanted gone of one project, by its marks."""

    project: str
    marks: tuple[tuple[bytes, frozenset[bytes]], ...]  # of each whole, and of its words

    def covers(self, text: str) -> bool:
        """True for words that were forgotten, and for words near to them."""
        if not self.marks:
            return False
        whole, words = forget_marks(self.project, text)
        return any(whole == gone or is_near(words, near) for gone, near in self.marks)

    def without(self, text: str) -> str:
        """The text without lines and sentences that say what was forgotten."""
        if not self.marks:
            return text
        kept = (line for line in text.split("\n") if not self.covers(_bare(line)))
        return "\n".join(map(self._without_sentences, kept))

    def _without_sentences(self, line: str) -> str:
        parts = _SENTENCE.split(line)
        kept = [one for one in parts if not self.covers(_bare(one))]
        return line if len(kept) == len(parts) else " ".join(kept)


def is_near(marks: frozenset[bytes], forgotten: frozenset[bytes]) -> bool:
    """True if a fact with these marks says what a forgotten one said."""
    if not marks or not forgotten:
        return False
    return len(marks & forgotten) / len(marks | forgotten) >= _NEAR


def _bare(line: str) -> str:
    """A line of Markdown without its mark and the id at its end."""
    text = line.strip().lstrip("-*# ").strip()
    head, bracket, tail = text.rpartition(" [m")
    return head if bracket and tail.endswith("]") else text


def _mark(project: str, text: str) -> bytes:
    return hashlib.sha256(f"forgotten\0{project}\0{text}".encode()).digest()[:8]
