"""Summarises one simple command by its first word. Pure, for display only.

A table has one reader per program; any other word is unknown, including absolute paths. Commands
that only format another one's output are recognised too; a summary omits them.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from swarm.mailbox.protocol.parsed_command import (
    ListFiles,
    ParsedCommand,
    ReadFile,
    Search,
    Unknown,
)

from .shell_quoting import join_words

_UNINFORMATIVE = frozenset({"build", "dist", "node_modules", "src"})


def flags(text: str) -> frozenset[str]:
    """A table of flags, written as one line."""
    return frozenset(text.split())


def operands(words: Iterable[str], valued: frozenset[str] = frozenset()) -> list[str]:
    """The words that are not flags.

    A flag in `valued` takes the next word as its value; after `--` every word is an operand.
    """
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*found, *rest]
        if word in valued:
            next(rest, None)
        elif not word.startswith("-"):
            found.append(word)
    return found


def first(words: Sequence[str]) -> str | None:
    """The first word, if there is one."""
    return words[0] if words else None


def value_of(words: Sequence[str], names: frozenset[str]) -> str | None:
    """The word after the first flag of `names`."""
    for at, word in enumerate(words[:-1]):
        if word in names:
            return words[at + 1]
    return None


def shorten(path: str) -> str:
    """The last informative component: `web/src/` → `web`."""
    trimmed = path.replace("\\", "/").rstrip("/")
    for part in reversed(trimmed.split("/")):
        if part and part not in _UNINFORMATIVE:
            return part
    return trimmed or path


def shorten_if_any(path: str | None) -> str | None:
    """`shorten`, or None for None."""
    return None if path is None else shorten(path)


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


ProgramReader = Callable[[list[str], str], ParsedCommand | None]  # (arguments, cmd); None = unknown

_LS = flags("-I -w --block-size --format --time-style --color --quoting-style")
_EZA = flags("-I --ignore-glob --color --sort --time-style --time")
_TREE = flags("-L -P -I --charset --filelimit --sort")
_DU = flags("-d --max-depth -B --block-size --exclude --time-style")
_RG = flags(
    "-g --glob --iglob -t --type --type-add --type-not -m --max-count -A -B -C --context"
    " --max-depth"
)
_GREP_PATTERN = flags("-e --regexp -f --file")
_GREP_VALUED = flags("-m --max-count -C --context -A --after-context -B --before-context")
_GIT_LS_FILES = flags("--exclude --exclude-from --pathspec-from-file")
_FD = flags("-t --type -e --extension -E --exclude --search-path")
_FIND_QUERY = flags("-name -iname -path -regex")
_AG = flags("-G -g --file-search-regex --ignore-dir --ignore-file --path-to-ignore")
_BAT = flags("--theme --language --style --terminal-width --tabs --line-range --map-syntax")
_LESS = flags("-p -P -x -y -z -j --pattern --prompt --tabs --shift --jump-target")
_NL = flags("-s -w -v -i -b")
_PYTHON = re.compile(r"python([23]|[23]\..*)?")
_PYTHON_LISTS = (
    "os.walk",
    "os.listdir",
    "os.scandir",
    "glob.glob",
    "glob.iglob",
    "pathlib.Path",
    ".rglob(",
)


def parse_simple_command(words: Sequence[str]) -> ParsedCommand:
    """The meaning of one command; `cmd` is its words joined."""
    cmd = join_words(words)
    head, arguments = words[0], list(words[1:])
    reader = _READERS.get(head) or (_python if _PYTHON.fullmatch(head) else None)
    meaning = reader(arguments, cmd) if reader else None
    return Unknown(cmd=cmd) if meaning is None else meaning


def _lists(valued: frozenset[str] = frozenset()) -> ProgramReader:
    def read(arguments: list[str], cmd: str) -> ParsedCommand:
        found = operands(arguments, valued)
        return ListFiles(cmd=cmd, path=shorten_if_any(first(found)))

    return read


def _searches(valued: frozenset[str]) -> ProgramReader:
    def read(arguments: list[str], cmd: str) -> ParsedCommand:
        return _query_and_path(operands(arguments, valued), cmd)

    return read


def _reads_one(valued: frozenset[str] = frozenset()) -> ProgramReader:
    def read(arguments: list[str], cmd: str) -> ParsedCommand | None:
        found = operands(arguments, valued)
        return _file(found[0], cmd) if len(found) == 1 else None

    return read


def _reads_part(*, plus: bool) -> ProgramReader:
    """`head` and `tail`: only with a number of lines, or a file alone."""

    def read(arguments: list[str], cmd: str) -> ParsedCommand | None:
        match arguments:
            case [path] if not path.startswith("-"):
                return _file(path, cmd)
            case ["-n", count, *rest] if is_count(count, plus=plus):
                pass
            case [flag, *rest] if flag.startswith("-n") and is_count(flag[2:], plus=plus):
                pass
            case _:
                return None
        found = first([word for word in rest if not word.startswith("-")])
        return None if found is None else _file(found, cmd)

    return read


def _file(path: str, cmd: str) -> ReadFile:
    return ReadFile(cmd=cmd, name=shorten(path), path=path)


def _query_and_path(found: Sequence[str], cmd: str) -> Search:
    return Search(cmd=cmd, query=first(found), path=shorten_if_any(first(found[1:])))


def _rg(arguments: list[str], cmd: str) -> ParsedCommand:
    found = operands(arguments, _RG)
    if "--files" in arguments:
        return ListFiles(cmd=cmd, path=shorten_if_any(first(found)))
    return _query_and_path(found, cmd)


def _grep(arguments: list[str], cmd: str) -> ParsedCommand:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = operands(arguments, _GREP_PATTERN | _GREP_VALUED)
    pattern = value_of(arguments[:end], _GREP_PATTERN)
    if pattern is not None:
        found = [pattern, *found]
    return _query_and_path(found, cmd)


def _git(arguments: list[str], cmd: str) -> ParsedCommand | None:
    match arguments:
        case ["grep", *rest]:
            return _grep(rest, cmd)
        case ["ls-files", *rest]:
            return _lists(_GIT_LS_FILES)(rest, cmd)
        case _:
            return None


def _fd(arguments: list[str], cmd: str) -> ParsedCommand:
    found = operands(arguments, _FD)
    if not found:
        return ListFiles(cmd=cmd)
    if len(found) == 1 and _looks_like_path(found[0]):
        return ListFiles(cmd=cmd, path=shorten(found[0]))
    return _query_and_path(found, cmd)


def _looks_like_path(word: str) -> bool:
    return word in (".", "..") or "/" in word or "\\" in word


def _find(arguments: list[str], cmd: str) -> ParsedCommand:
    places = [
        word for word in arguments if not word.startswith("-") and word not in ("!", "(", ")")
    ]
    path = shorten_if_any(first(places))
    query = value_of(arguments, _FIND_QUERY)
    if query is None:
        return ListFiles(cmd=cmd, path=path)
    return Search(cmd=cmd, query=query, path=path)


def _nl(arguments: list[str], cmd: str) -> ParsedCommand | None:
    path = first(operands(arguments, _NL))
    return None if path is None else _file(path, cmd)


def _sed(arguments: list[str], cmd: str) -> ParsedCommand | None:
    path = sed_input_file(arguments)
    return None if path is None else _file(path, cmd)


def _awk(arguments: list[str], cmd: str) -> ParsedCommand | None:
    path = awk_input_file(arguments)
    return None if path is None else _file(path, cmd)


def _python(arguments: list[str], cmd: str) -> ParsedCommand | None:
    script = value_of(arguments, flags("-c"))
    if script is None or not any(call in script for call in _PYTHON_LISTS):
        return None
    return ListFiles(cmd=cmd)


_READERS: dict[str, ProgramReader] = {
    "ls": _lists(_LS),
    "eza": _lists(_EZA),
    "exa": _lists(_EZA),
    "tree": _lists(_TREE),
    "du": _lists(_DU),
    "rg": _rg,
    "rga": _rg,
    "ripgrep-all": _rg,
    "git": _git,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "fd": _fd,
    "find": _find,
    "ag": _searches(_AG),
    "ack": _searches(_AG),
    "pt": _searches(_AG),
    "cat": _reads_one(),
    "more": _reads_one(),
    "bat": _reads_one(_BAT),
    "batcat": _reads_one(_BAT),
    "less": _reads_one(_LESS),
    "head": _reads_part(plus=False),
    "tail": _reads_part(plus=True),
    "nl": _nl,
    "sed": _sed,
    "awk": _awk,
}
