"""Every command that a script names, also where its words cannot be known. Pure.

For warnings only: what is found here may be asked about, but nothing is ever called safe because of
it. A word that the shell would change is kept as it stands, marked as a pattern or as unknown.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from .words import Words, descend, program_name, script_tree, shell_script, text_of

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
_CHANGING_QUOTED = re.compile(r"[$`\\]")
# Programs that run the words after them, and how many operands of their own come before.
_WRAPPERS = {
    "sudo": 0, "env": 0, "nohup": 0, "time": 0, "command": 0, "nice": 0, "exec": 0, "doas": 0,
    "builtin": 0, "timeout": 1, "setsid": 0, "stdbuf": 0, "ionice": 0, "chrt": 1, "unbuffer": 0,
}  # fmt: skip
_VALUED_OF_WRAPPERS = frozenset(
    {"-u", "-g", "-h", "-p", "-C", "-T", "-n", "-k", "-s", "--user", "--unset"}
)
_MOST_COMMANDS = 200
_DEEPEST = 4

Sort = Literal["literal", "pattern", "unknown"]


class LooseWord(NamedTuple):
    """`text` is the word itself, a file pattern, or the script's own text of what it becomes."""

    text: str
    sort: Sort = "literal"


LooseWords = tuple[LooseWord, ...]


def loose_commands(argv: Sequence[str]) -> tuple[LooseWords, ...]:
    """The commands of an argv or of its shell script, wrappers like `sudo` taken off. Never raises.

    At most 200; scripts inside scripts are read to a depth of 4.
    """
    found: list[LooseWords] = []
    for command in _commands(tuple(LooseWord(word) for word in argv), 0):
        found.append(command)
        if len(found) >= _MOST_COMMANDS:
            break
    return tuple(found)


def _commands(words: LooseWords, depth: int) -> Iterator[LooseWords]:
    words = _unwrapped(words)
    if not words:
        return
    script = _script_of(words)
    if script is None or depth >= _DEEPEST:
        yield words
        return
    read = script_tree(script)
    if read is None:
        yield words
        return
    root, source = read
    for node in descend(root):
        if node.type == "command":
            yield from _commands(_words_of(node, source), depth + 1)


def _script_of(words: LooseWords) -> str | None:
    if any(word.sort != "literal" for word in words[:3]):
        return None
    texts: Words = tuple(word.text for word in words[:3])
    if program_name(texts[0]) == "eval" and len(words) > 1:
        return " ".join(word.text for word in words[1:])
    return shell_script(texts)


def _unwrapped(words: LooseWords) -> LooseWords:
    """Without `sudo -u x`, `env A=b`, … in front."""
    while words and words[0].sort == "literal" and program_name(words[0].text) in _WRAPPERS:
        own = _WRAPPERS[program_name(words[0].text)]
        at = 1
        while at < len(words):
            text = words[at].text
            if text in _VALUED_OF_WRAPPERS:
                at += 2
            elif text.startswith("-") or ("=" in text and not text.startswith("=")):
                at += 1
            elif own:
                at, own = at + 1, own - 1
            else:
                break
        words = words[at:]
    return words


def _words_of(command: "Node", source: bytes) -> LooseWords:
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
        case "string":
            inner = text[1:-1]
            return LooseWord(inner, "unknown" if _CHANGING_QUOTED.search(inner) else "literal")
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
