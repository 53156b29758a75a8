"""Find a text whose words stand in a file with other blanks, and edit it in the file's layout.

A small model writes two lines as one: `def add(a, b): return a - b`. Its words stand in the file
all the same, and what it changes of them is put between the blanks and line ends that are there.
Pure.
"""

import re
from difflib import SequenceMatcher

_LEAST_WORDS = 3  # fewer stand in many places by chance
_MOST_WORDS = 400
_MOST_NEW_WORDS = 4_000
_BLANKS = re.compile(r"(\s+)")


def find_words(text: str, wanted: str) -> tuple[int, int] | None:
    """Start and end of the only place where these words stand one after the other; else None."""
    words = wanted.split()
    if not _LEAST_WORDS <= len(words) <= _MOST_WORDS:
        return None
    pattern = re.compile(r"(?<!\S)" + r"\s+".join(map(re.escape, words)) + r"(?!\S)")
    first = pattern.search(text)
    if first is None or pattern.search(text, first.start() + 1) is not None:
        return None
    return first.span()


def replace_words(found: str, new_text: str) -> str:
    """`found` with the words of `new_text`; blanks between words that stay are kept."""
    pieces = _BLANKS.split(found)
    words, gaps = pieces[::2], [*pieces[1::2], ""]
    new = new_text.split()
    if len(new) > _MOST_NEW_WORDS:  # comparing costs their product; the layout is new anyway
        return new_text.rstrip()
    changed = ""
    for tag, begin, end, new_begin, new_end in SequenceMatcher(
        None, words, new, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            kept = zip(words[begin:end], gaps[begin:end], strict=True)
            changed += "".join(word + gap for word, gap in kept)
        elif new_end > new_begin:
            lead = " " if changed and not changed[-1].isspace() else ""
            gap = gaps[end - 1] if end > begin else " "
            changed += lead + " ".join(new[new_begin:new_end]) + gap
    return changed.rstrip()
