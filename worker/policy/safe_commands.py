"""Which commands are known to change nothing, and which are known to destroy. Pure.

Safe means: in every possible reading this argv only reads. In doubt a command is not safe; an
option is refused by any prefix that a program would accept for it. The list is closed: new programs
are added here, by name, with the options that make them write or run something.

Source: Codex's safe and dangerous lists. Stricter here: a program outside the system's folders
(`./ls`) is never safe, nor `uniq` with a second file, nor options that stand in for a file name.
"""

import re
from collections.abc import Callable, Sequence

from .shell_parser import plain_commands, program_name, shell_script

SYSTEM_FOLDERS = frozenset(
    {"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"}
)
_ALWAYS = frozenset(
    {"cat", "cd", "cut", "echo", "expr", "false", "grep", "head", "id", "ls", "nl", "numfmt"}
    | {"paste", "pwd", "rev", "seq", "stat", "tac", "tail", "tr", "true", "uname", "wc", "which"}
    | {"whoami"}
)
_FIND_ACTS = frozenset(
    {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"}
)
_RG_RUNS = frozenset({"--pre", "--search-zip", "--hostname-bin"})
_RG_SHORT_VALUED = frozenset("ABCEMTdefgjmrt")
_GIT_GLOBAL = ("--config-env", "--exec-path", "--git-dir", "--namespace", "--super-prefix")
_GIT_GLOBAL_BANNED = (*_GIT_GLOBAL, "--work-tree")
_GIT_READS = frozenset({"status", "log", "diff", "show", "branch"})
_GIT_RUNS = ("--output", "--ext-diff", "--textconv", "--exec", "--paginate")
_BRANCH_LISTS = frozenset(
    {"--list", "-l", "--show-current", "-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose"}
)
_SED_RANGE = re.compile(r"[0-9]+(,[0-9]+)?p")
_SUDO_VALUED = frozenset({"-u", "-g", "-h", "-p", "-C", "-T", "-U", "-R", "-D", "-r", "-t"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_MAX_SUDO = 8


def is_safe_command(words: Sequence[str]) -> bool:
    """Whether the command only reads: literal words that are not a shell call. Never raises."""
    if not words or not is_system_program(words[0]):
        return False
    name = program_name(words[0])
    if name in _ALWAYS:
        return True
    check = _CHECKS.get(name)
    return check is not None and check(list(words[1:]))


def might_be_dangerous(argv: Sequence[str]) -> bool:
    """Whether the command, or any command of its plain shell script, removes by force."""
    words = list(argv)
    for _ in range(_MAX_SUDO):
        script = shell_script(words)
        if script is not None:
            return any(_is_dangerous(one) for one in plain_commands(script) or ())
        if not words or program_name(words[0]) != "sudo":
            break
        words = _after_sudo(words[1:])
    return _is_dangerous(words)


def is_system_program(word: str) -> bool:
    """True for a bare name, or a program in one of the system's own folders."""
    folder, slash, name = word.rpartition("/")
    return bool(name) and (not slash or folder in SYSTEM_FOLDERS)


def _is_dangerous(words: Sequence[str]) -> bool:
    if words and program_name(words[0]) == "sudo":
        return might_be_dangerous(words)
    if not words or program_name(words[0]) != "rm":
        return False
    options = words[1 : words.index("--")] if "--" in words else words[1:]
    return any(_forces(option) for option in options)


def _forces(option: str) -> bool:
    if option.startswith("--"):
        return len(option) > 2 and "--force".startswith(option)
    return option.startswith("-") and "f" in option


def _after_sudo(words: Sequence[str]) -> list[str]:
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return list(words[at + 1 :])
        if word in _SUDO_VALUED:
            at += 2
        elif word.startswith("-") or _ASSIGNMENT.match(word):
            at += 1
        else:
            break
    return list(words[at:])


def _names_option(word: str, names: Sequence[str]) -> bool:
    """Whether `word` is one of the long options, also as a prefix or with a value."""
    name = word.partition("=")[0]
    return len(name) > 2 and name.startswith("--") and any(one.startswith(name) for one in names)


def _safe_base64(arguments: list[str]) -> bool:
    return not any(word.startswith("-o") or _names_option(word, ["--output"]) for word in arguments)


def _safe_find(arguments: list[str]) -> bool:
    return _FIND_ACTS.isdisjoint(arguments)


def _safe_rg(arguments: list[str]) -> bool:
    return not any(word.partition("=")[0] in _RG_RUNS or _clusters_z(word) for word in arguments)


def _clusters_z(word: str) -> bool:
    """`-z`, also inside `-nz`; what follows an option with a value is its value."""
    if not word.startswith("-") or word.startswith("--"):
        return False
    for letter in word[1:]:
        if letter == "z":
            return True
        if letter in _RG_SHORT_VALUED:
            return False
    return False


def _safe_git(arguments: list[str]) -> bool:
    if any(
        (word.startswith("-c") and not word.startswith("--"))
        or _names_option(word, _GIT_GLOBAL_BANNED)
        for word in arguments
    ):
        return False
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] in ("-p", "--paginate"):
            return False
        at += 2 if arguments[at] == "-C" else 1
    verb, options = (arguments[at : at + 1] or [""])[0], arguments[at + 1 :]
    if verb not in _GIT_READS or any(_names_option(word, _GIT_RUNS) for word in options):
        return False
    return verb != "branch" or all(
        word in _BRANCH_LISTS or word.startswith("--format=") for word in options
    )


def _safe_sed(arguments: list[str]) -> bool:
    match arguments:
        case ["-n", script]:
            return _SED_RANGE.fullmatch(script) is not None
        case ["-n", script, file] if not file.startswith("-"):
            return _SED_RANGE.fullmatch(script) is not None
        case _:
            return False


def _safe_uniq(arguments: list[str]) -> bool:
    return sum(not word.startswith(("-", "+")) or word == "-" for word in arguments) <= 1


_CHECKS: dict[str, Callable[[list[str]], bool]] = {
    "base64": _safe_base64,
    "find": _safe_find,
    "rg": _safe_rg,
    "git": _safe_git,
    "sed": _safe_sed,
    "uniq": _safe_uniq,
}
