"""Every command that a script names, also where its words cannot be known. Pure.

For warnings only: what is found here may be asked about, but nothing is ever called safe because of
it. What a shell is fed as its script is read as one; where that cannot be, a command with a word of
the sort `script` stands for it.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from .feeding import Feeding, script_of
from .loose_words import LooseWord, LooseWords, unwrapped, words_of
from .words import Words, descend, script_tree

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_COMMANDS = 200
_UNREADABLE = (LooseWord("sh"), LooseWord("a script that a shell is fed", "script"))
_DEEPEST = 4
# In a script too long to be parsed: words that may stand for a loss.
_MAY_DESTROY = re.compile(
    r"\b(?:rm|shred|xargs)\b[^\n]{0,200}\s-|\s-(?:delete|exec)\b"
    r"|\bgit\b[^\n]{0,200}\b(?:clean|reset|checkout|restore|switch|push|rebase|branch|stash)\b"
)


def loose_commands(argv: Sequence[str]) -> tuple[LooseWords, ...]:
    """The commands of an argv or of its shell script, wrappers like `sudo` taken off. Never raises.

    At most 200; scripts inside scripts are read to a depth of 4.
    """
    found = _commands(tuple(LooseWord(word) for word in argv), 0)
    return tuple(islice(found, _MOST_COMMANDS))


def fed_commands(script: str) -> tuple[Words, ...]:
    """The commands of literal words that a shell in this script is fed by a heredoc or a pipe."""
    read = script_tree(script) if "<<" in script or "|" in script else None
    if read is None:
        return ()
    root, source = read
    feeding = Feeding(root, source)
    fed = (_fed(text, 1) for node in descend(root) for text in feeding.feeds(node))
    commands = islice((command for feed in fed for command in feed), _MOST_COMMANDS)
    return tuple(
        tuple(word.text for word in command)
        for command in commands
        if all(word.sort == "literal" for word in command)
    )


def _commands(words: LooseWords, depth: int) -> Iterator[LooseWords]:
    words = unwrapped(words)
    if not words:
        return
    script = script_of(words)
    if script is None or depth >= _DEEPEST:
        yield words
        return
    read = script_tree(script)
    if read is not None:
        yield from _in_tree(*read, depth)
    elif _MAY_DESTROY.search(script):
        size = f"a script of {len(script) // 1024} KiB, too long to be read"
        yield (words[0], LooseWord(size, "script"))
    else:
        yield words


def _in_tree(root: "Node", source: bytes, depth: int) -> Iterator[LooseWords]:
    feeding = Feeding(root, source)
    for node in descend(root):
        if node.type == "command":
            yield from _commands(words_of(node, source), depth + 1)
        for text in feeding.feeds(node):
            yield from _fed(text, depth + 1)
    if root.has_error and feeding.has_taker and b"<<" in source:
        yield _UNREADABLE  # who is fed what is not known


def _fed(script: str | None, depth: int) -> Iterator[LooseWords]:
    """The commands of what a shell is fed; one that stands for it where it cannot be read."""
    read = None if script is None or depth >= _DEEPEST else script_tree(script)
    if read is None or read[0].has_error:
        yield _UNREADABLE
    if read is None:
        return
    for words in _in_tree(*read, depth):
        yield words
        if words[0].sort == "unknown":  # its very name is made when it runs
            yield _UNREADABLE
