"""Decides which words of agents and models may become a memory.

Files, outputs and answers may hold what somebody else wants an agent to do. A memory is read by
later runs, so it must hold nothing that reads as an order, no address and no command of unknown
origin: only what a person said may be an instruction, and only what ran may be called to work.
"""

import re

from .bare_command import bare_command
from .memory_rules import load_memory_rules
from .run_evidence import RunEvidence

_ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]{1,15}://|www\.|\b[^\s@]{1,64}@[^\s@]{1,255}\.\w{2}|\b\d{1,3}(?:\.\d{1,3}){3}\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"`([^`]+)`")
_HIDDEN = re.compile(
    r"[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]|<!--|-->"
)
_JOINED = re.compile(r"[_\W]+")
_LEAST_ORDER_WORDS = 3  # `make eval` is no order
_PLACE = re.compile(r"[\w./@+-]{1,200}(?::\d{1,7}(?:-\d{1,7})?)?")
_SPACE = re.compile(r"\s+")
_COPIED_WORDS = 8  # in a row as some output has them


class FactGate:
    """For the facts of one run."""

    def __init__(self, evidence: RunEvidence) -> None:
        self._said = tuple(_plain(text) for text in evidence.said)
        self._ran = {_plain(bare_command(one.script)) for one in evidence.commands} - {""}
        self._outputs = tuple(_plain(text) for text in evidence.outputs)

    def is_said(self, text: str) -> bool:
        """True if a person said these words to the root."""
        plain = _plain(text)
        return bool(plain) and any(plain in said for said in self._said)

    def why_not(self, text: str) -> str:
        """Why these words of an agent cannot become a memory; "" if they can."""
        if _HIDDEN.search(text):
            return "it holds signs that are not seen"
        if _ADDRESS.search(text) and not self.is_said(text):
            return "it names an address"
        if found := load_memory_rules().order.search(_CODE.sub("", text)):
            return f"it reads as an order ({found[0]})"
        for code in _CODE.findall(text):
            if " " in code.strip() and _plain(code) not in self._ran and not self.is_said(code):
                return f"`{code}` did not run in this run"
        if self._is_copied(text):
            return "it repeats what a call wrote"
        return ""

    def _is_copied(self, text: str) -> bool:
        words = _plain(_CODE.sub("", text)).split(" ")
        for at in range(len(words) - _COPIED_WORDS + 1):
            part = " ".join(words[at : at + _COPIED_WORDS])
            if any(part in output for output in self._outputs):
                return True
        return False


def reads_as_order(words: str) -> bool:
    """True if words of a command, a file's name or an error read as an order, or name an address.

    Words that are joined (`always_run_this`) count as words; options do not.
    """
    if _ADDRESS.search(words):
        return True
    bare = " ".join(one for one in words.split() if not one.startswith("-"))
    found = load_memory_rules().order.findall(_JOINED.sub(" ", bare))
    return len(found) > 0 and len(_JOINED.split(bare)) >= _LEAST_ORDER_WORDS


def clean_place(place: str) -> str:
    """The place of a finding if it is one of a file, and reads as nothing else; else ""."""
    is_place = _PLACE.fullmatch(place.strip()) is not None and not reads_as_order(place)
    return place.strip() if is_place else ""


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text).strip().casefold()
