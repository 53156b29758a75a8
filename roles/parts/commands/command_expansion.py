"""Makes the text of a command that was called with words: which of them stand where. Pure.

`$ARGUMENTS` is all words, `$1` to `$9` are single ones, `$NAME` is a word given as NAME=value, `$$`
is a dollar sign. In a command line (!`…`) each word is quoted for the shell, so that it stays one.
"""

import re
import shlex
from collections.abc import Sequence

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

from .command_file import SHELL, PromptCommand

MOST_BYTES = 256 << 10  # of the text, without files
_MOST_FILES = 16
_CALL = re.compile(r"\s*/(?P<name>[A-Za-z0-9][\w.:-]*)(?=\s|\Z)[ \t]*(?P<words>[^\n]*)(?P<rest>.*)")
_PLACE = re.compile(r"\$\$|\$(?:ARGUMENTS\b|\{ARGUMENTS\}|[1-9](?!\d)|\{[1-9]\}|[A-Z][A-Z0-9_]*\b)")
_PIECE = re.compile(f"{SHELL.pattern}|{_PLACE.pattern}")
_GIVEN = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_MENTION = re.compile(r"(?<![\w@])@(?P<path>[^\s`'\"<>|@]{1,512})")
_PUNCTUATION = ".,;:!?)]}"
_PROMPTS = "prompts:"
_OUTPUTS_FOLLOW = (
    "[The outputs of the commands follow, each in a message of its own. One that is missing was "
    "not run.]"
)


class CalledCommand(Value):
    """A command as typed: the words of its line, and the lines below, which it does not see."""

    command: PromptCommand
    words: str = ""
    rest: str = ""


class Expansion(Value):
    """What a call becomes. `lines` are for the shell, `files` are the paths that it mentions."""

    text: str
    lines: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class _Words(Value):
    """The words of a call: all as typed, the single ones, and those with names."""

    typed: str
    single: tuple[str, ...]
    named: dict[str, str]


def find_call(text: str, commands: Sequence[PromptCommand]) -> CalledCommand | None:
    """The command that a text begins with; None if it begins with none.

    A prompt is also found as `/prompts:NAME`.
    """
    found = _CALL.match(text) if "/" in text[:1_000] else None
    if found is None:
        return None
    rest = text[found.end("words") :].strip("\n")
    for name in (found["name"], found["name"].removeprefix(_PROMPTS)):
        for command in commands:
            if command.name == name and (name == found["name"] or command.is_prompt):
                return CalledCommand(command=command, words=found["words"].strip(), rest=rest)
    return None


def expand_call(call: CalledCommand) -> Expansion:
    """The text with the words in their places.

    Raises UsageError: a named word is missing, a word would break a quotation in a command line, or
    the text becomes too long.
    """
    command = call.command
    words = _read_words(call)
    lines: list[str] = []
    takes_words = bool(_PLACE.search(command.body.replace("$$", "")))

    def fill(piece: re.Match[str]) -> str:
        if piece["shell"] is None:
            return _value(piece[0], words, unknown=piece[0])
        lines.append(_shell_line(piece["shell"].strip(), words, command))
        return f"[output {len(lines)}]"

    text = _PIECE.sub(fill, command.body)
    if words.typed and not takes_words:
        text += f"\n\n{words.typed}"
    named = (found["path"].rstrip(_PUNCTUATION) for found in _MENTION.finditer(text))
    files = tuple(dict.fromkeys(filter(None, named)))[:_MOST_FILES]
    if lines:
        text += f"\n\n{_OUTPUTS_FOLLOW}"
    if call.rest:
        text += f"\n\n{call.rest}"
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise UsageError(f"/{command.name}: its text becomes larger than {MOST_BYTES >> 10} KiB")
    return Expansion(text=text, lines=tuple(lines), files=files)


def _read_words(call: CalledCommand) -> _Words:
    try:
        split = shlex.split(call.words)
    except ValueError:  # an apostrophe, as in "don't"
        split = call.words.split()
    wanted = {
        found[0][1:]
        for found in _PLACE.finditer(SHELL.sub("", call.command.body))
        if found[0][1].isalpha() and found[0] != "$ARGUMENTS"
    }
    named: dict[str, str] = {}
    single: list[str] = []
    for word in split:
        given = _GIVEN.fullmatch(word)
        if given is not None and (given[1] in wanted or f"${given[1]}" in call.command.body):
            named[given[1]] = given[2]
        else:
            single.append(word)
    if call.command.is_prompt and (missing := sorted(wanted - named.keys())):
        usage = " ".join(f"{name}=…" for name in missing)
        raise UsageError(f"/{call.command.name} also takes {usage} ({call.command.path})")
    return _Words(typed=call.words, single=tuple(single), named=named)


def _value(place: str, words: _Words, *, unknown: str) -> str:
    inner = place[1:].strip("{}")
    if place == "$$":
        return "$"
    if inner == "ARGUMENTS":
        return words.typed
    if inner.isdigit():
        number = int(inner)
        return words.single[number - 1] if number <= len(words.single) else ""
    return words.named.get(inner, unknown)


def _shell_line(line: str, words: _Words, command: PromptCommand) -> str:
    """The line with each word quoted. Inside of quotation marks only plain words are taken."""

    def fill(place: re.Match[str]) -> str:
        inner = place[0][1:].strip("{}")
        if inner == "ARGUMENTS":
            given = words.single
        elif inner.isdigit() or inner in words.named:
            given = (_value(place[0], words, unknown=""),)
        else:
            return place[0]  # the shell's own: `$$`, `$HOME`
        value = " ".join(shlex.quote(word) for word in given if word)
        if value != " ".join(filter(None, given)) and _is_quoted(line[: place.start()]):
            raise UsageError(
                f"/{command.name}: a word has signs that a shell reads, and the file has it inside "
                f"of quotation marks; take them away there ({command.path}: !`{line[:80]}`)"
            )
        return value

    return _PLACE.sub(fill, line)


def _is_quoted(before: str) -> bool:
    """True if a quotation is open at the end of this text."""
    mark, escaped = "", False
    for sign in before:
        if escaped:
            escaped = False
        elif sign == "\\" and mark != "'":
            escaped = True
        elif sign in "'\"" and mark in {"", sign}:
            mark = "" if mark else sign
    return bool(mark)
