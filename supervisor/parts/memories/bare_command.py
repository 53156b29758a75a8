"""A command as it is remembered: what is executed, and no words that only accompany it. Pure.

Comments, heredocs, values of variables and quoted prose of a command are anybody's words: a file
that tells an agent what to run tells it what to remember. So a command is kept as plain words, or
not at all.
"""

import re
import shlex

from .memory_facts import one_line

CUT = "…"  # stands for words that are not kept
_MOST_CHARS = 160
_MOST_NAMES = 3  # in a row: targets, test names; more of them are a sentence
_AROUND = re.compile(r"^cd [\w./-]+ && | 2>&1$")
_OPERATORS = re.compile(r"[`$<>|;&(){}\\!]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_PLAIN = re.compile(r"[\w./:=@%+,\[\]*~^-]{1,80}")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_JOINED = re.compile(r"[_\W]+")
_MOST_JOINED = 6  # words in one, such as `test_a_b_c`


def bare_command(script: str) -> str:
    """The words that were executed; "" where they cannot be told from what accompanies them."""
    text = script.strip()
    if not text.isprintable() or len(text) > _MOST_CHARS:
        return ""  # more than one line, or signs that are not seen
    line = _AROUND.sub("", one_line(text))
    try:
        words = shlex.split(line, comments=True)
        whole = shlex.split(line)
    except ValueError:
        return ""
    kept = line if words == whole else " ".join(words)
    if _OPERATORS.search(_without_quoted(kept)):
        return ""  # its exit code would not be that of the command
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    return " ".join(_plain_words(words))


def _without_quoted(line: str) -> str:
    return re.sub(r"'[^']*'", "", line)


def _plain_words(words: list[str]) -> list[str]:
    """The words, with a mark in place of each that may hold prose."""
    kept: list[str] = []
    names = 0
    for at, word in enumerate(words):
        names = names + 1 if at > 0 and _NAME.fullmatch(word) else 0
        is_prose = len(_JOINED.split(word.strip("-/."))) > _MOST_JOINED and "/" not in word
        is_value = at > 0 and _ASSIGNMENT.match(word) is not None
        if _PLAIN.fullmatch(word) and names <= _MOST_NAMES and not is_prose and not is_value:
            kept.append(word)
        elif not kept or kept[-1] != CUT:
            kept.append(CUT)
    return kept
