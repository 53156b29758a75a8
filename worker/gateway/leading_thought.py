"""Split a leading `<think>…</think>` from an answer, where the server does not. Pure.

Only what stands before the first word of an answer is a thought. A block that does not end stays
part of the answer: nothing of it is lost.
"""

import re

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<reason>": "</reason>",
    "<seed:think>": "</seed:think>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
}
# The template has written the begin tag, so that an answer holds the end tag alone on its line.
_END_ALONE = re.compile(r"(?s)\A(?P<thought>.*?)(?:\A|\n)[ \t]*</think(?:ing)?>[ \t]*(?:\n|\Z)")
_FENCE = "```"


class LeadingThought:
    """The pieces of one answer's text."""

    def __init__(self) -> None:
        self._held = ""  # may be the beginning of a tag
        self._end_tag = ""  # of the block that is open
        self._begun = False  # the answer itself has begun
        self._had_block = False
        self._block: list[str] = []  # of the block that is open, as it came

    def feed(self, piece: str) -> tuple[str, str]:
        """The thought and the text that this piece adds."""
        if self._begun:
            return "", piece
        thoughts: list[str] = []
        self._held += piece
        while self._held and not self._is_answer():
            if self._end_tag:
                thought, goes_on = self._take_thought()
                thoughts.append(thought)
                if not goes_on:
                    break
            elif not self._take_tag():
                break
        if not self._is_answer():
            return "".join(thoughts), ""
        text, self._held = self._held, ""
        return "".join(thoughts), text

    def finish(self) -> tuple[str, str]:
        """What was held back at the end: a block that has not ended is text, as it came."""
        held, self._held, self._begun = self._held, "", True
        if self._end_tag:
            return "", "".join(self._block) + held
        return "", held

    @property
    def is_open(self) -> bool:
        """True while a block has begun and not ended."""
        return bool(self._end_tag)

    def _is_answer(self) -> bool:
        return self._begun

    def _take_tag(self) -> bool:
        """Begin a block, or the answer; False if more must come to know."""
        bare = self._held.lstrip()
        for tag, end in _TAGS.items():
            if bare.startswith(tag):
                self._block = [self._held[: len(self._held) - len(bare) + len(tag)]]
                self._held, self._end_tag, self._had_block = bare[len(tag) :], end, True
                return True
        if any(tag.startswith(bare) for tag in _TAGS):
            return False
        if self._had_block:
            self._held = bare
        self._begun = True
        return True

    def _take_thought(self) -> tuple[str, bool]:
        """The next part of the open block, and whether it has ended."""
        thought, end, rest = self._held.partition(self._end_tag)
        if end:
            self._end_tag, self._held = "", rest.lstrip()
            self._block = []
            return thought, True
        edge = len(self._held) - _begun_length(self._held, self._end_tag)
        thought, self._held = self._held[:edge], self._held[edge:]
        self._block.append(thought)
        return thought, False


def _begun_length(text: str, tag: str) -> int:
    """How many characters at the end of the text may be the beginning of the tag."""
    for length in range(min(len(text), len(tag) - 1), 0, -1):
        if tag.startswith(text[-length:]):
            return length
    return 0


def split_ended_thought(text: str) -> tuple[str, str]:
    """The thought and the answer of a whole text in which only the end tag stands."""
    found = _END_ALONE.match(text)
    if found is None or "<think" in found["thought"] or found["thought"].count(_FENCE) % 2:
        return "", text
    return found["thought"], text[found.end() :].lstrip("\n")


def split_thought(text: str) -> tuple[str, str]:
    """The thought and the answer of a whole text."""
    reading = LeadingThought()
    thought, said = reading.feed(text)
    said += reading.finish()[1]
    if reading.is_open:
        return "", said
    if not thought:
        return split_ended_thought(said)
    return thought, said
