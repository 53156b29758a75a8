"""The words of one command, including those known only when it runs. Pure.

A word that the shell would change is kept as written, and marked as a pattern or as unknown.
"""

import re
from typing import Literal, NamedTuple

from .shell_parser import SyntaxNode, node_text

_WORDS = frozenset(
    {"word", "number", "string", "raw_string", "concatenation", "simple_expansion", "expansion"}
    | {"command_substitution", "ansi_c_string", "process_substitution", "arithmetic_expansion"}
)
_PATTERN = frozenset("*?[")
# What the shell would replace; `HEAD~2` and `@{1}` stay as they are.
_CHANGING = re.compile(r"[$`\\]|(?:^|[=:])~|\{[^{}]*(?:,|\.\.)")
_ESCAPED = re.compile(r"\\([A-Za-z0-9_./-])")
EXPANDS_IN_QUOTES = re.compile(r"[$`\\]")
WordKind = Literal["literal", "pattern", "unknown", "script"]


class ShellWord(NamedTuple):
    """`text` is the word itself, a file pattern, or the script text that the shell would expand.

    A `script` is unreadable input of a shell; `text` shows where it comes from.
    """

    text: str
    kind: WordKind = "literal"


ShellWords = tuple[ShellWord, ...]


def read_shell_words(command: SyntaxNode, source: bytes) -> ShellWords:
    words: list[ShellWord] = []
    for child in command.children:
        node = child
        if child.type == "command_name" and child.child_count:
            node = child.children[0]
        if node.type in _WORDS:
            words.append(_read_shell_word(node, source))
    return tuple(words)


def _read_shell_word(node: SyntaxNode, source: bytes) -> ShellWord:
    text = node_text(node, source)
    match node.type:
        case "raw_string":
            return ShellWord(text[1:-1])
        case "ansi_c_string" if "\\" not in text:
            return ShellWord(text[2:-1])
        case "string":
            inner = text[1:-1]
            return ShellWord(inner, "unknown" if EXPANDS_IN_QUOTES.search(inner) else "literal")
        case "concatenation":
            return _joined(node, source)
        case "word" | "number":
            text = _ESCAPED.sub(r"\1", text)  # `\rm` is `rm`
            if _CHANGING.search(text):
                return ShellWord(text, "unknown")
            return ShellWord(text, "pattern" if _PATTERN & set(text) else "literal")
        case _:
            return ShellWord(text, "unknown")


def _joined(node: SyntaxNode, source: bytes) -> ShellWord:
    parts = [_read_shell_word(part, source) for part in node.children]
    text = "".join(part.text for part in parts)
    # Braces are separate parts, so only the whole text shows what the shell makes of them.
    bare = "".join(
        node_text(part, source)
        for part in node.children
        if part.type not in ("raw_string", "string")
    )
    if any(part.kind == "unknown" for part in parts) or _CHANGING.search(bare):
        return ShellWord(text, "unknown")
    return ShellWord(
        text, "pattern" if any(part.kind == "pattern" for part in parts) else "literal"
    )
