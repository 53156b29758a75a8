"""Parses shell text into plain words, or None. It never guesses at anything else.

Only a small part of bash is read: commands of literal words joined by `&& || ; |` or newlines.
Anything else (expansion, glob, redirect, assignment, subshell, comment, …) makes the whole script
unreadable, and every caller must then treat it as unknown. tree-sitter is imported on first use.

Source: Codex's word-only subset, in the stricter form of its 0.169 release.
"""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from swarm.mailbox.protocol.values.base import Value

from .shell_quoting import join_words, split_words

__all__ = [
    "HeredocCall",
    "SyntaxNode",
    "heredoc_call",
    "heredoc_command",
    "join_words",
    "load_shell_grammar",
    "node_text",
    "parse_script",
    "plain_commands",
    "program_name",
    "shell_script",
    "split_words",
    "walk_nodes",
]

Words = tuple[str, ...]
SHELLS = frozenset({"bash", "zsh", "sh"})
SCRIPT_FLAGS = frozenset({"-c", "-lc"})
MAX_SCRIPT_BYTES = 64 * 1024  # longer ones are unreadable; this bounds the time to parse
MAX_PARSED_BYTES = 16 * 1024  # smaller, because here the parser may see anything

_WORDS = frozenset({"word", "number", "string", "raw_string", "concatenation"})
_NAMED = _WORDS | {"program", "list", "pipeline", "command", "command_name", "string_content"}
_ANONYMOUS = frozenset({"&&", "||", ";", "|", '"', "'"})
# No plain script has more than this. It rejects most others at once, in linear time, and checks the
# parser's reading by a second, independent one.
_MAY_BE_PLAIN = re.compile(
    r"""(?:'[^']*+'|"[^"$`\\]*+"|\\\n|[^'"\\$`<>(){*?\[]++)*+""",
)
_MASK = bytes(range(128)) + b"x" * 128
_HEREDOC_LINE = re.compile(
    r"""\s*+(?P<call>[^\n]*?)<<[ \t]*(?P<quote>['"]?)(?P<tag>\w+)(?P=quote)[ \t]*\n"""
)
# What the shell would change, or a blank: the parser joins some words (`] ]`) into one.
_NOT_LITERAL = re.compile(r"(?:^|[=:])~|[*?\[{\\ \t\n]")
_BETWEEN_TOKENS = re.compile(rb"(?:[ \t\n]|\\\n)*")
# `a\⏎b` is one word to a shell and two to the parser; `a \⏎⏎b` is two commands.
_BETWEEN_WORDS = re.compile(rb"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")


class SyntaxNode(Protocol):
    """The part of `tree_sitter.Node` that is used: that library is imported on first use."""

    @property
    def type(self) -> str: ...
    @property
    def is_named(self) -> bool: ...
    @property
    def has_error(self) -> bool: ...
    @property
    def start_byte(self) -> int: ...
    @property
    def end_byte(self) -> int: ...
    @property
    def parent(self) -> "SyntaxNode | None": ...
    @property
    def child_count(self) -> int: ...
    @property
    def children(self) -> Sequence["SyntaxNode"]: ...


class HeredocCall(Value):
    """`[cd FOLDER &&] name <<TAG … TAG` as the whole script; `name` has no arguments."""

    name: str
    body: str  # without its last newlines
    folder: str | None = None


def program_name(word: str) -> str:
    """The last component of a program's path."""
    return word.rpartition("/")[2]


def shell_script(argv: Sequence[str]) -> str | None:
    """The script of `[bash|zsh|sh (any path), -c|-lc, script]`, else None."""
    if len(argv) == 3 and argv[1] in SCRIPT_FLAGS and program_name(argv[0]) in SHELLS:
        return argv[2]
    return None


def plain_commands(script: str) -> tuple[Words, ...] | None:
    """The script's commands as literal words, in order; None if it contains anything else.

    Never raises. An empty script gives None.
    """
    source = _encode(script, MAX_SCRIPT_BYTES)
    if source is None or not _MAY_BE_PLAIN.fullmatch(script):
        return None
    root = _parse(source)
    if root.has_error or not _only_plain_tokens(root, source):
        return None
    commands: list[Words] = []
    for node in walk_nodes(root):
        if node.type == "command":
            words = _literal_words(node, source)
            if words is None:
                return None
            commands.append(words)
    return tuple(commands) or None


def heredoc_command(script: str) -> Words | None:
    """The literal words of a script's only command, which has a heredoc as its input; else None.

    Such a command is *complex*: rules may match it, but it is never known safe.
    """
    source = _encode(script, MAX_PARSED_BYTES)
    if source is None or b"<<" not in source:
        return None
    root = _parse(source)
    if root.has_error:
        return None
    nodes = list(walk_nodes(root))
    commands = [node for node in nodes if node.type == "command"]
    heredocs = [node for node in nodes if node.type == "heredoc_redirect"]
    if len(commands) != 1 or len(heredocs) != 1:
        return None
    words = _literal_words(commands[0], source)
    # The grammar loses a `-` before `<<`, and attaches words after the tag to the redirect.
    lost = source[commands[0].end_byte : heredocs[0].start_byte].split()
    late = [_literal(node, source) for node in heredocs[0].children if node.type in _WORDS]
    if words is None or None in late or any(word != b"-" for word in lost):
        return None
    return (*words, *(word.decode() for word in lost), *(word or "" for word in late))


def heredoc_call(script: str) -> HeredocCall | None:
    """Recognise a script that is exactly one heredoc for one bare command name.

    Only its first line is parsed; the body, of any length, is taken as it stands.
    """
    line = _HEREDOC_LINE.match(script)
    if line is None:
        return None
    body, found, after = f"\n{script[line.end() :]}\n".partition(f"\n{line['tag']}\n")
    source = _encode(line["call"], MAX_PARSED_BYTES)
    if not found or after.strip() or source is None:
        return None
    root = _parse(source)
    called = _called_in_folder(root, source)
    if called is None or root.has_error:
        return None
    name, folder = called
    return HeredocCall(name=name, body=body[1:].rstrip("\n"), folder=folder)


def parse_script(script: str) -> tuple[SyntaxNode, bytes] | None:
    """The parser's tree of any script, with any errors, and the source for `node_text`.

    None if the script is too long to be read.
    """
    source = _encode(script, MAX_PARSED_BYTES)
    return None if source is None else (_parse(source), source)


def node_text(node: SyntaxNode, source: bytes) -> str:
    """The script's own text of a node. (`node.text` is that of the masked copy.)"""
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def walk_nodes(root: SyntaxNode) -> Iterator[SyntaxNode]:
    """Every node in the order of the text, parents first; not recursive."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def load_shell_grammar() -> None:
    """Import the parser now (3–10 ms), in a process that will fork; no thread, no open file."""
    _parser()


@functools.cache
def _parser() -> Callable[[bytes], SyntaxNode]:
    import tree_sitter  # 4–10 ms: only processes that read commands import it
    import tree_sitter_bash

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    return lambda source: parser.parse(source).root_node


def _encode(script: str, limit_bytes: int) -> bytes | None:
    try:
        source = script.encode()
    except UnicodeEncodeError:
        return None
    return source if len(source) <= limit_bytes and b"\0" not in source else None


def _parse(source: bytes) -> SyntaxNode:
    """Parse a copy in which every non-ASCII byte is a letter.

    The grammar's scanner looks characters up in C's table of 256 and crashes the process on some
    that lie beyond it. For a shell, too, they are only parts of words.
    """
    return _parser()(source.translate(_MASK))


def _only_plain_tokens(root: SyntaxNode, source: bytes) -> bool:
    """Whether all nodes are in the subset and only blanks lie between the tokens."""
    covered = 0
    for node in walk_nodes(root):
        if node.type not in (_NAMED if node.is_named else _ANONYMOUS):
            return False
        is_token = node.type in ("string", "raw_string") or not node.child_count
        if is_token and node.start_byte >= covered:
            if not _BETWEEN_TOKENS.fullmatch(source, covered, node.start_byte):
                return False
            covered = node.end_byte
    return _BETWEEN_TOKENS.fullmatch(source, covered) is not None


def _literal_words(command: SyntaxNode, source: bytes) -> Words | None:
    words: list[str] = []
    end = command.start_byte
    for child in command.children:
        if words and not _BETWEEN_WORDS.fullmatch(source, end, child.start_byte):
            return None
        end = child.end_byte
        if child.type == "command_name":
            first = child.children[0] if child.child_count == 1 else None
            if first is None or first.type != "word":
                return None
            child = first
        word = _literal(child, source)
        if word is None:
            return None
        words.append(word)
    return tuple(words)


def _literal(node: SyntaxNode, source: bytes) -> str | None:
    text = node_text(node, source)
    match node.type:
        case "word" | "number":
            return None if node.child_count or _NOT_LITERAL.search(text) else text
        case "raw_string":
            return text[1:-1]
        case "string":
            return _double_quoted(node, text)
        case "concatenation":
            return _joined(node, source)
        case _:
            return None


def _joined(node: SyntaxNode, source: bytes) -> str | None:
    """The text of a concatenation, whose parts must touch."""
    text, end = "", node.start_byte
    for part in node.children:
        literal = _literal(part, source)
        if literal is None or part.start_byte != end:
            return None
        text, end = text + literal, part.end_byte
    return text


def _double_quoted(node: SyntaxNode, text: str) -> str | None:
    """The text between the quotes: line breaks in it have no node of their own."""
    inside = node.children[1:-1]
    if "\\" in text or any(part.type != "string_content" for part in inside):
        return None
    return text[1:-1]


def _called_in_folder(root: SyntaxNode, source: bytes) -> tuple[str, str | None] | None:
    """`name` → (name, None); `cd FOLDER && name` → (name, FOLDER)."""
    node = root.children[0] if root.child_count == 1 else root
    if not _only_plain_tokens(root, source):
        return None
    if node.type == "command":
        words = _literal_words(node, source)
        return None if words is None or len(words) != 1 else (words[0], None)
    if node.type != "list" or [part.type for part in node.children] != ["command", "&&", "command"]:
        return None
    change, call = (_literal_words(node.children[at], source) for at in (0, 2))
    if change is None or call is None or len(change) != 2 or len(call) != 1:
        return None
    return (call[0], change[1]) if change[0] == "cd" else None
