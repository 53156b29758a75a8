"""Recognises commands that only record work in a git repository, for one grant per run. Pure.

The grant opens objects, index and refs, but not hooks or configuration. A command line that also
runs something else does not get it: a script written by a model could do anything with it.
"""

import posixpath
from collections.abc import Sequence

from .commit_scripts import recording_commands
from .destructive_commands import find_destructive_commands
from .git_call import GitCall, read_git_call
from .safe_commands import is_safe_command, is_system_program
from .shell_parser import Words

_COMMIT_VERBS = frozenset(
    {"add", "commit", "mv", "rm", "stash", "tag", "branch", "switch", "checkout", "restore"}
    | {"reset", "merge", "cherry-pick", "revert", "notes", "apply", "am", "read-tree", "write-tree"}
    | {"commit-tree", "update-index", "hash-object", "worktree"}
)
# Settings of a shell that only end it earlier, or show what it does.
_STRICT = frozenset(
    {"-e", "-u", "-x", "-eu", "-ex", "-ux", "-eux", "-o", "-eo", "-euo", "-euxo", "-uo"}
    | {"pipefail", "errexit", "nounset", "xtrace"}
)
_HARMLESS_COMMANDS = frozenset({"cd", "echo", "true", "printf", "pwd"})


def find_recording_folder(
    argv: Words, commands: Sequence[Words], cwd: str, *, is_complex: bool
) -> str | None:
    """As `find_commit_folder`, also for a script that has its data in it (`commit_scripts.py`).

    `commands` are the plain commands of `argv`; `is_complex`: one of them has a heredoc.
    """
    with_data = recording_commands(argv)
    if with_data is None and is_complex:
        return None
    return find_commit_folder(with_data or commands, cwd)


def find_commit_folder(commands: Sequence[Words], cwd: str) -> str | None:
    """The folder in whose repository all these plain commands only record work; None otherwise.

    None also if anything other than recording, reading and `cd` is among them, if they rewrite
    history or destroy work, or if they work in two folders.
    """
    folder, place = cwd, None
    for words in commands:
        call = read_git_call(words)
        if call is not None and not is_system_program(words[0]):
            return None  # `./git` is any program
        if call is None:
            if words[:1] == ("cd",) and len(words) == 2:
                folder = _joined(folder, words[1])
            elif not _is_harmless(words) and not is_safe_command(words):
                return None
            continue
        if is_safe_command(words) or (call.plain and _only_lists(call)):
            continue
        if not call.plain or find_destructive_commands(words) or call.verb not in _COMMIT_VERBS:
            return None
        here = _joined(folder, call.folder)
        if place not in (None, here):
            return None
        place = here
    return place


def _is_harmless(words: Words) -> bool:
    # `printf -v PATH …` would choose the programs that come after it.
    program, arguments = words[0], words[1:]
    sets_variable = program == "printf" and any(one.startswith("-v") for one in arguments[:1])
    is_strict = program == "set" and bool(arguments) and _STRICT.issuperset(arguments)
    return is_strict or (program in _HARMLESS_COMMANDS and not sets_variable)


def _only_lists(call: GitCall) -> bool:
    first = call.operands[:1]
    match call.verb:
        case "stash":
            return first in (("list",), ("show",))
        case "worktree" | "notes":
            return first == ("list",)
        case "tag":
            return not call.operands or call.has("-l", "--list")
        case _:
            return False


def _joined(folder: str, step: str) -> str:
    return posixpath.normpath(posixpath.join(folder, step))
