"""The words of one command, also where nobody can know them before it runs. Pure.

A word that the shell would change is kept as it stands, marked as a pattern or as unknown.
"""

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from .words import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_WORDS = frozenset(
    {"word", "number", "string", "raw_string", "concatenation", "simple_expansion", "expansion"}
    | {"command_substitution", "ansi_c_string", "process_substitution", "arithmetic_expansion"}
)
_PATTERN = frozenset("*?[")
# What the shell would put something else for; `HEAD~2` and `@{1}` stay as they are.
_CHANGING = re.compile(r"[$`\\]|(?:^|[=:])~|\{[^}]*(?:,|\.\.)")
_ESCAPED = re.compile(r"\\([A-Za-z0-9_./-])")
CHANGING_QUOTED = re.compile(r"[$`\\]")
Sort = Literal["literal", "pattern", "unknown", "script"]


class LooseWord(NamedTuple):
    """`text` is the word itself, a file pattern, or the script's own text of what it becomes.

    A `script` is what a shell is fed and nobody can read; `text` shows where it comes from.
    """

    text: str
    sort: Sort = "literal"


LooseWords = tuple[LooseWord, ...]


def words_of(command: "Node", source: bytes) -> LooseWords:
    words: list[LooseWord] = []
    for child in command.children:
        node = child
        if child.type == "command_name" and child.child_count:
            node = child.children[0]
        if node.type in _WORDS:
            words.append(_loose(node, source))
    return tuple(words)


def _loose(node: "Node", source: bytes) -> LooseWord:
    text = text_of(node, source)
    match node.type:
        case "raw_string":
            return LooseWord(text[1:-1])
        case "ansi_c_string" if "\\" not in text:
            return LooseWord(text[2:-1])
        case "string":
            inner = text[1:-1]
            return LooseWord(inner, "unknown" if CHANGING_QUOTED.search(inner) else "literal")
        case "concatenation":
            return _joined(node, source)
        case "word" | "number":
            text = _ESCAPED.sub(r"\1", text)  # `\rm` is `rm`
            if _CHANGING.search(text):
                return LooseWord(text, "unknown")
            return LooseWord(text, "pattern" if _PATTERN & set(text) else "literal")
        case _:
            return LooseWord(text, "unknown")


def _joined(node: "Node", source: bytes) -> LooseWord:
    parts = [_loose(part, source) for part in node.children]
    text = "".join(part.text for part in parts)
    # Braces are parts of their own, so only the whole shows what the shell makes of them.
    bare = "".join(
        text_of(part, source) for part in node.children if part.type not in ("raw_string", "string")
    )
    if any(part.sort == "unknown" for part in parts) or _CHANGING.search(bare):
        return LooseWord(text, "unknown")
    return LooseWord(
        text, "pattern" if any(part.sort == "pattern" for part in parts) else "literal"
    )
