"""Whether all that a hook starts is held, so that its `allow` may count. Reads the disk.

An agent that can change what a hook starts would approve itself. So a hook may allow only what it
decides with programs that no agent can exchange: its script by content or in a place of the
person's, each program that the script names, and an interpreter that loads nothing of the project.
What cannot be known counts as not held; such a hook may still deny and ask.
"""

import ast
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.base.held_programs import Lookup, UnheldProgram, find_program, held_environment
from swarm.mailbox.base.held_programs import why_unheld as why_path_unheld
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.hooks import CommandHook, Hook, HttpHook, McpHook
from swarm.roles.parts.hooks.hook_scripts import hook_variables
from swarm.roles.rules.program_effects import effects_of, named_files, runs_project_code

from ...policy.git_call import read_git_call
from ...policy.git_settings import why_git_unheld
from ...policy.script_commands import find_commands
from ...policy.shell_words import ShellWord, ShellWords

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_MAX_SCRIPT = 256 << 10
_MAX_DEPTH = 4
_BUILTINS = frozenset(
    {":", "[", "[[", "true", "false", "echo", "printf", "test", "exit", "return", "read", "cd"}
    | {"export", "local", "unset", "set", "shift", "pwd", "type", "umask", "wait", "kill", "break"}
    | {"readonly", "getopts", "continue"}
)
_GIT_NAMES = frozenset({"rev-parse", "symbolic-ref"})  # names of branches hold no JSON
_BY_PATTERN = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "jq", "yq", "fd"})
_LISTS = frozenset({"ls", "find", "tree", "du", "fd"})
_NEVER_PRINT = frozenset({"tr", "date", "echo", "printf", "which", "ps", "df"})
# Assignments that change what a name starts, and arithmetic, which runs what a value says.
_CHANGES_NAMES = re.compile(
    r"\b(?:PATH|LD_\w+|BASH_ENV|ENV|PYTHON\w+|GIT_\w+|NODE_\w+|PERL\w+|RUBY\w+|HOME|IFS)\+?="
    r"|\(\(|\s-(?:eq|ne|lt|le|gt|ge)\s[^]]*\]\]"
)
_FUNCTION = re.compile(r"^[ \t]*+(?:function[ \t]++)?([A-Za-z_]\w*+)[ \t]*+\(\)", re.MULTILINE)
_STARTING_MODULES = frozenset(
    {"subprocess", "runpy", "importlib", "pty", "multiprocessing", "ctypes", "code", "codeop"}
    | {"pickle", "shelve", "marshal", "zipimport", "imp", "asyncio", "pkgutil", "socketserver"}
    | {"posix", "_posixsubprocess", "concurrent", "webbrowser", "pdb", "cffi"}
)
_STARTING_NAMES = frozenset({"exec", "eval", "compile", "__import__", "__builtins__"})
_STARTING_ATTRIBUTES = re.compile(
    r"system|popen|exec[lv]p?e?|spawn\w*|posix_spawnp?|fork\w*|path_hooks"
)


class _Place(NamedTuple):
    """Where the hook runs."""

    lookup: Lookup
    home: str
    held: frozenset[str]  # scripts whose content was trusted and is compared
    functions: frozenset[str] = frozenset()
    moves: bool = False  # its script changes its folder


def why_not_held(
    hook: Hook, cwd: str, environment: Mapping[str, str], places: WritablePlaces
) -> str:
    """Why what the hook starts could be changed by agents; "" if none of it can."""
    match hook.action:
        case CommandHook(args=args):
            pass
        case HttpHook():
            return "what answers at its address is not known"
        case McpHook():
            return "what its MCP server runs is not known"
        case _:
            return "a model's yes permits nothing"
    if places.everywhere:
        return "agents of this run may write everywhere: it has no sandbox"
    home = environment.get("HOME", "") or "/"
    if why := why_path_unheld(home, places):
        return f"settings are read from the home folder, and {why}"
    folder = hook.folder or cwd
    clean = held_environment(environment, Lookup(environment.get("PATH", ""), folder, places))
    held = frozenset(one.path for one in hook.scripts if one.sha256)
    place = _Place(Lookup(clean.get("PATH", ""), folder, places), home, held)
    line = hook.command if args is None else hook.line
    for name, value in hook_variables(hook, folder).items():
        line = line.replace(f"${{{name}}}", value).replace(f"${name}", value)
    return _why_script(line, place, 0)


def _why_script(text: str, place: _Place, depth: int) -> str:
    """Of a shell script: every command in it."""
    if depth > _MAX_DEPTH:
        return "its scripts start one another"
    functions = place.functions | frozenset(_FUNCTION.findall(text))
    if changed := _CHANGES_NAMES.search(text):
        return f"`{changed[0].strip()}` can change what its script starts"
    commands = find_commands(("sh", "-c", text))
    if not commands:
        return "" if not text.strip() else "its script cannot be read"
    moves = place.moves or any(one[0].text in ("cd", "pushd") for one in commands if one)
    place = place._replace(functions=functions, moves=moves)
    return next((why for one in commands if (why := _why_command(one, place, depth))), "")


def _why_command(words: ShellWords, place: _Place, depth: int) -> str:
    first = words[0] if words else ShellWord("true")
    if first.kind != "literal":
        return f"`{first.text[:80]}` starts what is known only when it runs"
    name = first.text
    if name in _BUILTINS or name in place.functions:
        return ""
    if name in (".", "source"):
        return _why_sourced(words, place, depth)
    if name in ("eval", "alias", "trap", "enable", "builtin", "command"):
        return f"`{name}` runs what is known only when it runs"
    if name in SHELLS and len(words) == 1:
        return f"{name} reads its script from a pipe"
    if "/" in name and not name.startswith("/") and place.moves:
        return f"`{name}` is started from a folder that its script enters"
    path = os.path.join(place.lookup.cwd, name) if "/" in name else ""  # noqa: PTH118
    if path and os.path.normpath(path) in place.held:
        return _why_file(os.path.normpath(path), place, depth)
    found = find_program(name, place.lookup)
    if isinstance(found, UnheldProgram):
        return found.reason
    literal = tuple(word.text for word in words)
    return _why_program(literal, words, place, depth) or _why_text(found.path, place, depth)


def _why_sourced(words: ShellWords, place: _Place, depth: int) -> str:
    file = next(iter(words[1:]), None)
    if file is None or file.kind != "literal":
        return "it sources a file that is known only when it runs"
    return _why_shell_file(_path(file.text, place), place, depth)


def _why_program(literal: tuple[str, ...], words: ShellWords, place: _Place, depth: int) -> str:
    """Of a held program: what its words make it run."""
    name = literal[0].rpartition("/")[2]
    if runs_project_code(literal):
        return f"`{name}` runs code of the project"
    effects = effects_of(name)
    call = read_git_call(literal)
    if call is not None:
        if call.verb not in _GIT_NAMES and "--show-current" not in call.arguments:
            return f"`git {call.verb}` prints what agents wrote"
        return why_git_unheld(_path(call.folder, place), place.home, place.lookup.places)
    if effects.script:
        return _why_interpreter(words, place, depth)
    if effects.more == "run" and len(literal) > 1:
        return f"`{name}` starts what its words say"
    if why := _why_read(name, words, place):
        return why
    files = (_path(word, place) for word in named_files(literal) if word)
    whys = (why_path_unheld(one, place.lookup.places) for one in files if Path(one).is_file())
    return next(filter(None, whys), "")


def _why_read(name: str, words: ShellWords, place: _Place) -> str:
    """Of a program that prints what it reads: a file of an agent could hold a yes."""
    further = effects_of(name).more
    if further not in ("read", "one", "program") or name in _NEVER_PRINT:
        return ""
    operands = [word for word in words[1:] if not word.text.startswith("-")]
    first = int(further == "program" or name in _BY_PATTERN)
    if name in _LISTS and not operands:
        return f"`{name}` prints names that agents may choose"
    for word in operands[first:]:
        if word.kind != "literal":
            return f"`{name}` prints a file that is known only when it runs"
        path = _path(word.text, place)
        is_held = path in place.held or path == "/dev/null"
        if why := "" if is_held else why_path_unheld(path, place.lookup.places):
            return f"`{name}` prints a file, and {why}"
    return ""


def _why_interpreter(words: ShellWords, place: _Place, depth: int) -> str:
    name = words[0].text.rpartition("/")[2]
    if name in SHELLS:
        return _why_shell(words, place, depth)
    if not re.fullmatch(r"python3?(?:\.\d+)?", name):
        return (
            f"{name} loads modules from where agents may write; a shell or `python3 -I` can be held"
        )
    options = [word.text for word in words[1:]]
    at = next(
        (at for at, one in enumerate(options) if not one.startswith("-") or one == "-c"), None
    )
    flags = options if at is None else options[:at]
    if not any(one.startswith("-") and "I" in one for one in flags if not one.startswith("--")):
        return f"{name} loads modules beside its script; start it with `-I`"
    if at is None or "-m" in flags:
        return f"{name} reads its program from elsewhere than a file"
    word = words[1 + at]
    if word.text == "-c":
        known = len(words) > at + 2 and words[at + 2].kind == "literal"
        return (
            _why_python(words[at + 2].text) if known else "its program is known only when it runs"
        )
    if word.kind != "literal":
        return "its script is known only when it runs"
    return _why_file(_path(word.text, place), place, depth, is_python=True)


def _why_shell(words: ShellWords, place: _Place, depth: int) -> str:
    """A script that is given with `-c` is found among the commands; a file is read here."""
    for at, word in enumerate(words[1:], 1):
        if word.text.startswith("-") and "c" in word.text and not word.text.startswith("--"):
            known = len(words) > at + 1 and words[at + 1].kind == "literal"
            return (
                _why_script(words[at + 1].text, place, depth + 1)
                if known
                else "its script is known only when it runs"
            )
        if not word.text.startswith(("-", "+")):
            if word.kind != "literal":
                return "its script is known only when it runs"
            return _why_shell_file(_path(word.text, place), place, depth)
    return "a shell reads its script from a pipe"


def _why_file(path: str, place: _Place, depth: int, *, is_python: bool = False) -> str:
    """Of a script that is started: it is held, and so is what it starts."""
    if why := _why_unread(path, place):
        return why
    text = _read(path)
    if is_python:
        return _why_python(text)
    return _why_first_line(path, text, place, depth)


def _why_first_line(path: str, text: str, place: _Place, depth: int) -> str:
    line = text.partition("\n")[0]
    words = shlex.split(line[2:]) if line.startswith("#!") else ["sh"]
    if words and words[0].rpartition("/")[2] == "env":
        words = [word for word in words[1:] if word not in ("-S", "-i")]
    if not words:
        return f"{path} does not say which program runs it"
    name = words[0].rpartition("/")[2]
    found = find_program(words[0], place.lookup)
    if isinstance(found, UnheldProgram):
        return found.reason
    if name in SHELLS:
        return _why_script(text, place, depth + 1)
    if re.fullmatch(r"python3?(?:\.\d+)?", name):
        isolated = any("I" in word for word in words[1:] if word.startswith("-"))
        return _why_python(text) if isolated else f"{path} must start with `#!/usr/bin/python3 -I`"
    return f"{path} is run by {name}; a shell or `python3 -I` can be held"


def _why_shell_file(path: str, place: _Place, depth: int) -> str:
    return _why_unread(path, place) or _why_script(_read(path), place, depth + 1)


def _why_unread(path: str, place: _Place) -> str:
    if not Path(path).is_file():
        return f"there is no file {path}"
    return "" if path in place.held else why_path_unheld(path, place.lookup.places)


def _why_text(path: str, place: _Place, depth: int) -> str:
    """A program of the person's that is itself a shell script starts more; others are complete."""
    if path.startswith(("/bin/", "/usr/")):
        return ""
    text = _read(path)
    return _why_first_line(path, text, place, depth) if text.startswith("#!") else ""


def _why_python(text: str) -> str:
    """Of a Python program that loads the standard library and its own environment alone."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "its program cannot be read as Python"
    bad = next(_starting_words(tree), "")
    return f"its program uses `{bad}`, which can start or load what is not held" if bad else ""


def _starting_words(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                tops = [one.name.partition(".")[0] for one in names]
            case ast.ImportFrom(module=module, names=names):
                tops = ["a relative import" if node.level else str(module).partition(".")[0]]
                yield from (one.name for one in names if _STARTING_ATTRIBUTES.fullmatch(one.name))
            case ast.Name(id=name) if name in _STARTING_NAMES:
                tops = [name]
            case ast.Attribute(attr=name) if _STARTING_ATTRIBUTES.fullmatch(name):
                yield name
                continue
            case ast.Attribute(value=ast.Name(id="sys"), attr="path" | "modules" | "meta_path"):
                yield "sys.path"
                continue
            case ast.Call(func=ast.Name(id="getattr" | "globals" | "vars")):
                yield "getattr"
                continue
            case _:
                continue
        starts = _STARTING_MODULES | _STARTING_NAMES
        is_name = isinstance(node, ast.Name)
        yield from (
            one for one in tops if one in starts or not (is_name or one in sys.stdlib_module_names)
        )


def _path(word: str, place: _Place) -> str:
    return os.path.normpath(os.path.join(place.lookup.cwd, os.path.expanduser(word)))  # noqa: PTH111, PTH118


def _read(path: str) -> str:
    try:
        return read_user_file(path, most_bytes=_MAX_SCRIPT).decode("utf-8", "replace")
    except OSError:
        return ""
