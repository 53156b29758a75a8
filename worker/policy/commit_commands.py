"""Recognises commands that only record work in a git repository, for one grant per run. Pure.

The grant opens objects, index and refs, but not hooks or configuration. A command line that also
runs something else does not get it: a script written by a model could do anything with it.
"""

import posixpath
from collections.abc import Sequence

from .destructive_commands import find_destructive_commands
from .git_call import GitCall, read_git_call
from .safe_commands import is_safe_command
from .shell_parser import Words

_COMMIT_VERBS = frozenset(
    {"add", "commit", "mv", "rm", "stash", "tag", "branch", "switch", "checkout", "restore"}
    | {"reset", "merge", "cherry-pick", "revert", "notes", "apply", "am", "read-tree", "write-tree"}
    | {"commit-tree", "update-index", "hash-object", "worktree"}
)
_HARMLESS_COMMANDS = frozenset({"cd", "echo", "true", "printf", "pwd"})


def find_commit_folder(commands: Sequence[Words], cwd: str) -> str | None:
    """The folder in whose repository all these plain commands only record work; None otherwise.

    None also if anything other than recording, reading and `cd` is among them, if they rewrite
    history or destroy work, or if they work in two folders.
    """
    folder, place = cwd, None
    for words in commands:
        call = read_git_call(words)
        if call is None:
            if words[:1] == ("cd",) and len(words) == 2:
                folder = _joined(folder, words[1])
            elif words[0] not in _HARMLESS_COMMANDS and not is_safe_command(words):
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
