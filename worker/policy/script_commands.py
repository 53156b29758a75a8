"""Finds every command that a script names, also where its words cannot be known. Pure.

For warnings only: what is found here may need an approval, but nothing ever counts as safe because
of it. A script that a shell reads as input is parsed too; where that is impossible, a command with
a word of the kind `script` stands for it.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from .command_wrappers import MAX_LAYERS, indirect_commands, is_transparent, unwrap_layers
from .script_input import ScriptInput, inline_scripts
from .shell_parser import (
    MAX_PARSED_BYTES,
    SyntaxNode,
    Words,
    parse_script,
    program_name,
    walk_nodes,
)
from .shell_words import ShellWord, ShellWords, read_shell_words

_MOST_COMMANDS = 4_000  # more than a script of parsable size can hold
_UNREADABLE = (ShellWord("sh"), ShellWord("a script that a shell is fed", "script"))
_MAX_DEPTH = 4
_QUOTING = re.compile(r"[\\'\"]")
_MOST_NAMED = 20_000
_MOST_CUT = 8 * MAX_PARSED_BYTES
_LONGEST_PREFIX = 64  # words of a command that a rule could be about
# In a script too long to be parsed: words that may mean a loss.
_MAY_DESTROY = re.compile(
    r"\b(?:rm|shred|xargs)\b[^\n]{0,200}\s-|\s-(?:delete|exec)\b"
    r"|\bgit\b[^\n]{0,200}\b(?:clean|reset|checkout|restore|switch|push|rebase|branch|stash)\b"
)


def find_commands(argv: Sequence[str]) -> tuple[ShellWords, ...]:
    """The commands of an argv or of its shell script, without wrappers like `sudo`. Never raises.

    At most 4,000; scripts inside scripts are read to a depth of 4.
    """
    found = _commands(tuple(ShellWord(word) for word in argv), 0)
    return tuple(islice(found, _MOST_COMMANDS))


def named_commands(argv: Sequence[str]) -> tuple[Words, ...]:
    """Every command that this argv may run, by the literal words at its start.

    Each part of any script counts, with and without its wrappers. For rules that ask or forbid. A
    script too long to be parsed is cut at blanks: any word there may begin a command.
    """
    found = list(islice(_named(tuple(ShellWord(word) for word in argv), 0), _MOST_NAMED))
    if len(found) == _MOST_NAMED:
        found += _cut_at_blanks(" ".join(argv))
    return tuple(dict.fromkeys(words for one in found if (words := _literal_head(one))))


def _literal_head(words: ShellWords) -> Words:
    known = takewhile(lambda word: word.kind == "literal", islice(words, _LONGEST_PREFIX))
    return tuple(word.text for word in known)


def _named(words: ShellWords, depth: int) -> Iterator[ShellWords]:
    found = list(unwrap_layers(words))
    for one in found:
        yield one
        if depth >= _MAX_DEPTH:
            continue
        for script in inline_scripts(one):
            read = parse_script(script)
            if read is None:
                yield from _cut_at_blanks(script)
                continue
            root, source = read
            feeding = ScriptInput(root, source)
            for node in walk_nodes(root):
                if node.type == "command":
                    yield from _named(read_shell_words(node, source), depth + 1)
                for text in feeding.input_texts(node):
                    if text is not None:
                        yield from _named(_shell_call(text), depth + 1)
    if len(found) >= MAX_LAYERS:
        yield from _suffixes(words)


def _shell_call(script: str) -> ShellWords:
    return ShellWord("sh"), ShellWord("-c"), ShellWord(script)


def _suffixes(words: ShellWords) -> Iterator[ShellWords]:
    for at in range(len(words)):
        yield words[at : at + _LONGEST_PREFIX]


def _cut_at_blanks(script: str) -> Iterator[ShellWords]:
    for line in re.split(r"[\n;&|()`]+", _QUOTING.sub("", script[:_MOST_CUT])):
        yield from _suffixes(tuple(ShellWord(word) for word in line.split()))


def input_commands(script: str) -> tuple[Words, ...]:
    """The commands of literal words that a shell in this script reads from a heredoc or a pipe."""
    read = parse_script(script) if "<<" in script or "|" in script else None
    if read is None:
        return ()
    root, source = read
    feeding = ScriptInput(root, source)
    fed = (
        _commands_of_input(text, 1)
        for node in walk_nodes(root)
        for text in feeding.input_texts(node)
    )
    commands = islice((command for feed in fed for command in feed), _MOST_COMMANDS)
    return tuple(
        tuple(word.text for word in command)
        for command in commands
        if all(word.kind == "literal" for word in command)
    )


def _commands(words: ShellWords, depth: int) -> Iterator[ShellWords]:
    for one in unwrap_layers(words, fed=False):
        scripts = inline_scripts(one) if depth < _MAX_DEPTH else ()
        if not is_transparent(one) and (not scripts or program_name(one[0].text) == "git"):
            yield one
        for script in scripts:
            yield from _in_script(one, script, depth)
        if depth < _MAX_DEPTH:
            for inner in indirect_commands(one):
                yield from _commands(inner, depth + 1)


def _in_script(words: ShellWords, script: str, depth: int) -> Iterator[ShellWords]:
    read = parse_script(script)
    if read is not None:
        yield from _in_tree(*read, depth)
    elif _MAY_DESTROY.search(script):
        size = f"a script of {len(script) // 1024} KiB, too long to be read"
        yield (words[0], ShellWord(size, "script"))
    else:
        yield words


def _in_tree(root: SyntaxNode, source: bytes, depth: int) -> Iterator[ShellWords]:
    feeding = ScriptInput(root, source)
    for node in walk_nodes(root):
        if node.type == "command":
            yield from _commands(read_shell_words(node, source), depth + 1)
        for text in feeding.input_texts(node):
            yield from _commands_of_input(text, depth + 1)
    if root.has_error and feeding.has_reader and b"<<" in source:
        yield _UNREADABLE  # it is unknown which command reads the heredoc


def _commands_of_input(script: str | None, depth: int) -> Iterator[ShellWords]:
    """The commands of a shell's input; if it cannot be read, one command that stands for it."""
    read = None if script is None or depth >= _MAX_DEPTH else parse_script(script)
    if read is None or read[0].has_error:
        yield _UNREADABLE
    if read is None:
        return
    for words in _in_tree(*read, depth):
        yield words
        if words[0].kind == "unknown":  # its name is known only when it runs
            yield _UNREADABLE
