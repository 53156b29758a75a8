"""Finds which commands in a script read a script: from a heredoc, a pipe or a substitution. Pure.

For warnings only, so in doubt a shell counts as reading what stands near it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from .command_wrappers import unwrap_command
from .shell_parser import SyntaxNode, node_text, program_name, walk_nodes
from .shell_words import EXPANDS_IN_QUOTES, ShellWord, ShellWords, read_shell_words

_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash", "ksh", "mksh", "rbash"})
_BECOME_SHELLS = frozenset({"sudo", "doas", "su"})
_SOURCE_COMMANDS = frozenset({"source", "."})
_VALUED = re.compile(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file")
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_TABS = re.compile(r"^\t+", re.MULTILINE)


def inline_scripts(words: ShellWords) -> tuple[str, ...]:
    """The scripts in a command's own words.

    `bash -exc SCRIPT`, `eval WORDS`, `trap SCRIPT EXIT`, `env -S WORDS`, `alias x=SCRIPT`, `su -c
    SCRIPT`, …
    """
    if not words or words[0].kind != "literal":
        return ()
    name, rest = program_name(words[0].text), words[1:]
    match name:
        case "eval" if rest:
            return (" ".join(word.text for word in rest),)
        case "trap":
            return tuple(word.text for word in rest if not _is_option(word))[:1]
        case "alias":
            return tuple(word.text.partition("=")[2] for word in rest if "=" in word.text)
        case "env":
            return tuple(_split_string(rest))
        case "parallel" | "watch":
            return tuple(word.text for word in rest if " " in word.text)
        case "git":
            return tuple(_of_git([word.text for word in rest]))
        case "su" | "script" | "flock" | "runuser" | "sg":
            found = _script_argument(words, longer=True)
            return () if found is None else (found.text,)
        case _ if name in _SHELLS:
            script = _script_argument(words)
            return (script.text,) if script is not None and script.kind == "literal" else ()
        case _:
            return ()


def _is_option(word: ShellWord) -> bool:
    return word.text.startswith("-")


def _split_string(rest: ShellWords) -> Iterator[str]:
    """`env -S 'WORDS'`, `-vS…`, `--split-string=…`, read as a shell's words."""
    for at, word in enumerate(rest):
        text, after = word.text, " ".join(one.text for one in rest[at + 1 :])
        if text.startswith("--split-string"):
            yield f"{text.partition('=')[2]} {after}"
        elif text.startswith("-") and not text.startswith("--") and "S" in text:
            yield f"{text.partition('S')[2]} {after}"
        elif not text.startswith("-") and "=" not in text:
            return


def _of_git(texts: list[str]) -> Iterator[str]:
    """The scripts that git itself passes to a shell."""
    if "submodule" in texts and "foreach" in texts:
        after = texts[texts.index("foreach") + 1 :]
        yield " ".join(text for text in after if not text.startswith("--"))
    if "rebase" in texts:
        for option, value in pairwise(texts):
            if option in ("-x", "--exec"):
                yield value
            elif value.startswith("--exec="):
                yield value.removeprefix("--exec=")


def reads_script(words: ShellWords) -> bool:
    """Whether a command runs its input, or the result of a substitution, as a script."""
    words = unwrap_command(words) or words
    if not words:
        return False
    name, rest = program_name(words[0].text), words[1:]
    if name in _BECOME_SHELLS:
        return name == "su" or any(word.text in ("-s", "-i", "--login") for word in rest)
    if name == "eval" or name in _SOURCE_COMMANDS:
        return any(word.kind != "literal" or word.text in _STDIN for word in rest)
    if name not in _SHELLS:
        return False
    script = _script_argument(words)
    if script is not None:
        return script.kind != "literal"
    first = _script_file(rest)
    return first is None or first.kind != "literal" or first.text in _STDIN


class ScriptInput:
    """One script's tree: which of its parts read a script, and what input each gets."""

    def __init__(self, root: SyntaxNode, source: bytes) -> None:
        self._source = source
        commands = [node for node in walk_nodes(root) if node.type == "command"]
        words = {node.start_byte: read_shell_words(node, source) for node in commands}
        self._readers = sorted(at for at, one in words.items() if reads_script(one))
        if functions := self._functions(root):
            called = [at for at, one in words.items() if one and one[0].text in functions]
            self._readers = sorted({*self._readers, *called})

    @property
    def has_reader(self) -> bool:
        """Whether any command in this script runs its input."""
        return bool(self._readers)

    def input_texts(self, node: SyntaxNode) -> Iterator[str | None]:
        """The text that this part of the script passes to a shell; None if it cannot be known."""
        if not self._readers:
            return
        match node.type:
            case "heredoc_redirect" if self._is_read_by_shell(node):
                body = next((part for part in node.children if part.type == "heredoc_body"), None)
                text = "" if body is None else node_text(body, self._source)
                yield _TABS.sub("", text) if node.children[0].type == "<<-" else text
            case "herestring_redirect" if self._is_read_by_shell(node):
                yield self._literal_text(node.children[-1])
            case "command" if node.parent is not None and node.parent.type == "pipeline":
                words = unwrap_command(read_shell_words(node, self._source))
                if (
                    words
                    and words[0].text in ("echo", "printf")
                    and self._is_read_by_shell(node.parent)
                ):
                    yield _echo_output(words[1:])
            case _:
                pass

    def _functions(self, root: SyntaxNode) -> frozenset[str]:
        """Names of functions in the script in which a shell reads its input."""
        made = (node for node in walk_nodes(root) if node.type == "function_definition")
        return frozenset(
            node_text(one.children[0], self._source) for one in made if self._contains_reader(one)
        )

    def _contains_reader(self, node: SyntaxNode) -> bool:
        at = bisect_left(self._readers, node.start_byte)
        return at < len(self._readers) and self._readers[at] < node.end_byte

    def _is_read_by_shell(self, node: SyntaxNode) -> bool:
        """Whether a shell beside or around this node runs the node's output."""
        around: SyntaxNode | None = node
        while around is not None:
            if around.type in ("pipeline", "redirected_statement", "command"):
                is_command = around.type == "command"
                if (
                    around.start_byte in self._readers
                    if is_command
                    else self._contains_reader(around)
                ):
                    return True
            around = around.parent
        return False

    def _literal_text(self, node: SyntaxNode) -> str | None:
        text = node_text(node, self._source)
        if node.type == "raw_string":
            return text[1:-1]
        if node.type not in ("string", "word") or EXPANDS_IN_QUOTES.search(text):
            return None
        return text[1:-1] if node.type == "string" else text


def _echo_output(words: ShellWords) -> str | None:
    given = [word for word in words if not word.text.startswith("-")]
    if any(word.kind == "unknown" for word in given):
        return None
    return " ".join(word.text for word in given).replace("\\n", "\n")


def _script_argument(words: ShellWords, *, longer: bool = False) -> ShellWord | None:
    """The word after a shell's `-c`, also in a cluster of letters.

    With `longer`, operands may come before it.
    """
    at = 1
    while at + 1 < len(words) and (longer or words[at].text.startswith(("-", "+"))):
        text = words[at].text
        if longer and text == "--command":
            return words[at + 1]
        if text.startswith("-") and not text.startswith("--") and "c" in text:
            return words[at + 1]
        at += 2 if _VALUED.fullmatch(text) else 1
    return None


def _script_file(rest: ShellWords) -> ShellWord | None:
    """The script file given to a shell; None if it reads its standard input."""
    at = 0
    while at < len(rest):
        text = rest[at].text
        if _VALUED.fullmatch(text):
            at += 2
        elif not text.startswith(("-", "+")) or text == "-":
            return rest[at]
        elif text.startswith("-") and not text.startswith("--") and "s" in text:
            return None  # `-s`: the words after it are the script's arguments
        else:
            at += 1
    return None
