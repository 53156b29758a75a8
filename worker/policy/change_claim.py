"""What a small model says about its task before it may change a file, and whether that holds. Pure.

A small model edits files when it is greeted, because its tools are all that it sees. So it starts
each turn read-only, and says first what the task asks for. That the task asks for a change it must
show with words of the task, and a greeting or a mere question holds none.
"""

import re
from typing import Literal

from swarm.mailbox.contents.context_markers import split_sentences
from swarm.mailbox.protocol.values.base import Value

TaskKind = Literal["question", "change", "greeting"]

_WORD = re.compile(r"\w+")
_LEAST_WORDS = 2  # of the task, that ask for a change
_MOST_CHARS = 20_000  # of a task that are looked at
_GREETING_WORDS = (
    "hi hello hey hallo howdy yo greetings good morning afternoon evening night day there thanks "
    "thank you very much please everyone team cheers bye goodbye ok okay test"
)
_GREETINGS = frozenset(_GREETING_WORDS.split())
_ASKING_WORDS = (
    "what what's why who who's whose whom how how's where where's when which is are was were am do "
    "does did has have had"
)
_ASKING = frozenset(_ASKING_WORDS.split())
_PROPOSING = frozenset({"about", "not", "don't"})  # how about …, why not …
_PLAINLY_ASKING = frozenset({"what", "why", "who", "how", "where", "which"})
_AUXILIARY = frozenset(
    "is are was were do does did has have had can could should would".split()  # noqa: SIM905
)
_TWO_PARTS = re.compile(r"[,;:]|\band\b|\bthen\b")


class TaskClaim(Value):
    """What the model says: the kind of its task, and words of the task that show it."""

    asks_for: TaskKind
    words: str = ""


def find_claim_fault(claim: TaskClaim, task: str) -> str:
    """Why the task does not ask for a change, although the model says so; "" if it may."""
    text = task[:_MOST_CHARS]
    said, asked = _words(claim.words), set(_words(text))
    if only_asks(text):
        return "the task only greets or asks a question: answer it, and change nothing"
    if len(set(said)) < _LEAST_WORDS:
        return "`words` must hold the words of the task that ask for a change, at least two"
    if missing := next((word for word in said if word not in asked), ""):
        return f"`words` must be words of the task itself, and `{missing[:40]}` is none"
    return ""


def only_asks(task: str) -> bool:
    """True if each sentence is a greeting or a question for information, in English.

    What cannot be told is no mere question: then the model's own word counts.
    """
    return all(map(_only_asks, split_sentences(task)))


def _only_asks(sentence: str) -> bool:
    words = re.findall(r"[\w']+", sentence.casefold())
    while words and words[0] in _GREETINGS:
        words.pop(0)
    if not words:
        return True
    first, second = words[0], words[1] if len(words) > 1 else ""
    if first not in _ASKING or second in _PROPOSING:
        return False
    if sentence.rstrip().endswith("?"):
        return True
    is_one_part = _TWO_PARTS.search(sentence.casefold()) is None
    return first in _PLAINLY_ASKING and second in _AUXILIARY and is_one_part


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
