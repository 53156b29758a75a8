"""Who in a script reads a script: a shell from a heredoc, a pipe or a substitution. Pure.

For warnings only, so in doubt a shell is taken to read what stands near it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from .loose_words import CHANGING_QUOTED, LooseWord, LooseWords, words_of
from .words import descend, program_name, text_of
from .wrappers import unwrapped

if TYPE_CHECKING:
    from tree_sitter import Node

_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash", "ksh", "mksh", "rbash"})
_BECOME_SHELLS = frozenset({"sudo", "doas", "su"})
_READ_FILES = frozenset({"source", "."})
_VALUED = re.compile(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file")
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_TABS = re.compile(r"^\t+", re.MULTILINE)


def scripts_of(words: LooseWords) -> tuple[str, ...]:
    """The scripts that stand in a command's own words: `bash -exc SCRIPT`, `eval WORDS`,
    `trap SCRIPT EXIT`, `env -S WORDS`, `alias x=SCRIPT`, `su -c SCRIPT`, …
    """
    if not words or words[0].sort != "literal":
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
            found = _after_c(words, longer=True)
            return () if found is None else (found.text,)
        case _ if name in _SHELLS:
            script = _after_c(words)
            return (script.text,) if script is not None and script.sort == "literal" else ()
        case _:
            return ()


def _is_option(word: LooseWord) -> bool:
    return word.text.startswith("-")


def _split_string(rest: LooseWords) -> Iterator[str]:
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
    """What git itself hands to a shell."""
    if "submodule" in texts and "foreach" in texts:
        after = texts[texts.index("foreach") + 1 :]
        yield " ".join(text for text in after if not text.startswith("--"))
    if "rebase" in texts:
        for option, value in pairwise(texts):
            if option in ("-x", "--exec"):
                yield value
            elif value.startswith("--exec="):
                yield value.removeprefix("--exec=")


def takes_script(words: LooseWords) -> bool:
    """Whether a command runs what it is fed, or what a substitution gives it."""
    words = unwrapped(words) or words
    if not words:
        return False
    name, rest = program_name(words[0].text), words[1:]
    if name in _BECOME_SHELLS:
        return name == "su" or any(word.text in ("-s", "-i", "--login") for word in rest)
    if name == "eval" or name in _READ_FILES:
        return any(word.sort != "literal" or word.text in _STDIN for word in rest)
    if name not in _SHELLS:
        return False
    script = _after_c(words)
    if script is not None:
        return script.sort != "literal"
    first = _script_file(rest)
    return first is None or first.sort != "literal" or first.text in _STDIN


class Feeding:
    """One script's tree: which parts of it take a script, and what each is fed."""

    def __init__(self, root: "Node", source: bytes) -> None:
        self._source = source
        commands = [node for node in descend(root) if node.type == "command"]
        words = {node.start_byte: words_of(node, source) for node in commands}
        self._takers = sorted(at for at, one in words.items() if takes_script(one))
        if functions := self._functions(root):
            called = [at for at, one in words.items() if one and one[0].text in functions]
            self._takers = sorted({*self._takers, *called})

    @property
    def has_taker(self) -> bool:
        """Whether anything in this script runs what it is fed."""
        return bool(self._takers)

    def feeds(self, node: "Node") -> Iterator[str | None]:
        """The text that this part of the script feeds to a shell; None if nobody can know it."""
        if not self._takers:
            return
        match node.type:
            case "heredoc_redirect" if self._is_taken(node):
                body = next((part for part in node.children if part.type == "heredoc_body"), None)
                text = "" if body is None else text_of(body, self._source)
                yield _TABS.sub("", text) if node.children[0].type == "<<-" else text
            case "herestring_redirect" if self._is_taken(node):
                yield self._word(node.children[-1])
            case "command" if node.parent is not None and node.parent.type == "pipeline":
                words = unwrapped(words_of(node, self._source))
                if words and words[0].text in ("echo", "printf") and self._is_taken(node.parent):
                    yield _echoed(words[1:])
            case _:
                pass

    def _functions(self, root: "Node") -> frozenset[str]:
        """Names of functions of the script in which a shell takes what it is fed."""
        made = (node for node in descend(root) if node.type == "function_definition")
        return frozenset(text_of(one.children[0], self._source) for one in made if self._holds(one))

    def _holds(self, node: "Node") -> bool:
        at = bisect_left(self._takers, node.start_byte)
        return at < len(self._takers) and self._takers[at] < node.end_byte

    def _is_taken(self, node: "Node") -> bool:
        """Whether what comes out of this node is run by a shell beside or around it."""
        around: Node | None = node
        while around is not None:
            if around.type in ("pipeline", "redirected_statement", "command"):
                is_command = around.type == "command"
                if around.start_byte in self._takers if is_command else self._holds(around):
                    return True
            around = around.parent
        return False

    def _word(self, node: "Node") -> str | None:
        text = text_of(node, self._source)
        if node.type == "raw_string":
            return text[1:-1]
        if node.type not in ("string", "word") or CHANGING_QUOTED.search(text):
            return None
        return text[1:-1] if node.type == "string" else text


def _echoed(words: LooseWords) -> str | None:
    given = [word for word in words if not word.text.startswith("-")]
    if any(word.sort == "unknown" for word in given):
        return None
    return " ".join(word.text for word in given).replace("\\n", "\n")


def _after_c(words: LooseWords, *, longer: bool = False) -> LooseWord | None:
    """The word after a shell's `-c`, also in a cluster of letters; `longer`: operands may come
    before it.
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


def _script_file(rest: LooseWords) -> LooseWord | None:
    """The script file that a shell is given; None if it reads its standard input."""
    at = 0
    while at < len(rest):
        text = rest[at].text
        if _VALUED.fullmatch(text):
            at += 2
        elif not text.startswith(("-", "+")) or text == "-":
            return rest[at]
        elif text.startswith("-") and not text.startswith("--") and "s" in text:
            return None  # `-s`: what follows are the script's own words
        else:
            at += 1
    return None
