"""Recognises commands that only format another one's output; a summary omits them. Display only."""

import re
from collections.abc import Sequence

from .command_operands import first, flags, operands

_ALWAYS = flags("wc tr cut sort uniq tee column yes printf")
_LINE_RANGE = re.compile(r"[0-9]+(,[0-9]+)?p")
_COUNT = re.compile(r"[0-9]+")
_SED_SCRIPT = flags("-e --expression")
_SED_VALUED = flags("-e -f --expression --file")
_AWK_VALUED = flags("-F -v -f --field-separator --assign --file")
_AWK_SCRIPT = flags("-f --file")
_XARGS_VALUED = flags("-E -e -I -L -n -P -s")


def is_output_filter(words: Sequence[str]) -> bool:
    """Whether the command has no file or subject of its own."""
    head, arguments = words[0], words[1:]
    match head:
        case "xargs":
            return not _mutates(_xargs_command(arguments))
        case "awk":
            return awk_input_file(arguments) is None
        case "head" | "tail":
            return _only_counts(arguments, plus=head == "tail")
        case "sed":
            return sed_input_file(arguments) is None
        case _:
            return head in _ALWAYS


def awk_input_file(arguments: Sequence[str]) -> str | None:
    """The data file of an awk command: after the program, or first where `-f` names the program."""
    found = operands(arguments, _AWK_VALUED)
    has_script_file = any(word in _AWK_SCRIPT for word in arguments)
    return first(found if has_script_file else found[1:])


def sed_input_file(arguments: Sequence[str]) -> str | None:
    """The file of `sed -n RANGE file`; None for every other sed."""
    if "-n" not in arguments:
        return None
    scripts = [word for at, word in enumerate(arguments) if at and arguments[at - 1] in _SED_SCRIPT]
    plain = [word for word in arguments if not word.startswith("-")]
    if not any(_LINE_RANGE.fullmatch(word) for word in [*scripts, *plain]):
        return None
    files = operands(arguments, _SED_VALUED)
    if files and _LINE_RANGE.fullmatch(files[0]):
        files = files[1:]
    return first(files)


def is_count(text: str, *, plus: bool) -> bool:
    """Whether `text` is a number of lines; with `plus` also `+N`."""
    return _COUNT.fullmatch(text.removeprefix("+") if plus else text) is not None


def _only_counts(arguments: Sequence[str], *, plus: bool) -> bool:
    match list(arguments):
        case []:
            return True
        case [flag]:
            return flag.startswith("-")
        case ["-n" | "-c", count]:
            return is_count(count, plus=plus)
        case _:
            return False


def _xargs_command(arguments: Sequence[str]) -> Sequence[str]:
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word == "--":
            return arguments[at + 1 :]
        if not word.startswith("-"):
            return arguments[at:]
        at += 2 if word in _XARGS_VALUED else 1
    return ()


def _mutates(words: Sequence[str]) -> bool:
    match list(words):
        case ["perl" | "ruby", *rest]:
            return any(word.startswith(("-i", "-pi")) for word in rest)
        case ["sed", *rest]:
            return any(word.startswith(("-i", "--in-place")) for word in rest)
        case ["rg", *rest]:
            return any(word.split("=")[0] == "--replace" for word in rest)
        case _:
            return False
