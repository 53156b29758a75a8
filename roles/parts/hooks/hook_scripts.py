"""Finds the files of a project that a hook's command starts, so that their content is held.

Only files in the place of a program, or of an interpreter's script, count: what a hook reads or
writes may change. Words that a shell computes are not found.
"""

import os
import shlex
from collections.abc import Iterator

from swarm.mailbox.protocol.hooks import CommandHook, Hook

PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR", "SWARM_PROJECT_DIR")
ROOT_VARIABLES = ("CLAUDE_PLUGIN_ROOT", "PLUGIN_ROOT", "SWARM_PLUGIN_ROOT")
DATA_VARIABLES = ("CLAUDE_PLUGIN_DATA", "PLUGIN_DATA", "SWARM_PLUGIN_DATA")
_STARTERS = (
    "sh bash dash zsh ksh fish python python3 node deno bun ruby perl php lua Rscript pwsh uv "
    "uvx npx tsx ts-node env exec nice timeout run time command source . xargs"
)
_INTERPRETERS = frozenset(_STARTERS.split())
_OPERATORS = frozenset(";|&()")
_MAX_SCRIPTS = 20


def hook_variables(hook: Hook, folder: str) -> dict[str, str]:
    """The variables of a hook's command: the project's folder, and its plugin's folders."""
    variables: dict[str, str] = dict.fromkeys(PROJECT_VARIABLES, folder)
    if hook.plugin:
        variables |= dict.fromkeys(ROOT_VARIABLES, hook.plugin)
        variables |= dict.fromkeys(DATA_VARIABLES, hook.plugin_data)
    return variables


def hook_scripts(hook: Hook, folder: str) -> tuple[str, ...]:
    """The files inside `folder` that the hook starts; none if it starts no command."""
    if not isinstance(hook.action, CommandHook):
        return ()
    return named_scripts(hook.line, folder)


def missing_script(hook: Hook, folder: str) -> str:
    """The first file that the hook's command starts and that is not there; "" if all are.

    An interpreter says in its own way, often with exit code 1, that it found no script.
    """
    if not isinstance(hook.action, CommandHook):
        return ""
    command = hook.line
    for name, value in hook_variables(hook, folder).items():
        command = command.replace(f"${{{name}}}", value).replace(f"${name}", value)
    for word in _programs(command):
        if "/" in word and not set("$`*?") & set(word):
            path = os.path.join(folder, os.path.expanduser(word))  # noqa: PTH111, PTH118 - text only
            if not os.path.lexists(path):
                return path
    return ""


def named_scripts(command: str, folder: str) -> tuple[str, ...]:
    """Absolute paths inside `folder` that the command starts, at most 20; they may not exist."""
    for name in PROJECT_VARIABLES:
        command = command.replace(f"${{{name}}}", folder).replace(f"${name}", folder)
    found: dict[str, None] = {}
    for word in _programs(command):
        path = os.path.normpath(os.path.join(folder, word))  # noqa: PTH118 - text only
        if path.startswith(f"{folder}/") and len(found) < _MAX_SCRIPTS:
            found[path] = None
    return tuple(found)


def _programs(command: str, *, nested: bool = False) -> Iterator[str]:
    """Words that name what is started."""
    expects, after_redirection = True, False
    for word in _words(command):
        if set(word) <= _OPERATORS:
            expects = True
        elif word[0] in "<>":
            after_redirection = True
        elif after_redirection:
            after_redirection = False
        elif not expects or word.startswith("-") or _is_assignment(word) or word.isdigit():
            if not nested and any(sign.isspace() for sign in word):
                yield from _programs(word, nested=True)
        elif any(sign.isspace() for sign in word):
            if not nested:
                yield from _programs(word, nested=True)
            expects = False
        elif os.path.basename(word) in _INTERPRETERS:  # noqa: PTH119 - text only
            continue
        else:
            if "/" in word or "." in word:
                yield word
            expects = False


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _words(command: str) -> list[str]:
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(filter(None, lexer))
    except ValueError:  # an open quote: the shell will refuse it too
        return list(filter(None, command.split()))
