"""Finds what a command line starts and loads, and whether agents could exchange a part of it.

What has rights that agents do not have (no sandbox, the network, credentials, folders to write)
must consist of files that no agent may write: else an agent rewrites one and waits for the next
start. Only reads. Blocks.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.base.held_programs import (
    SEARCH_VARIABLES,
    Lookup,
    UnheldProgram,
    find_program,
    is_program,
    why_unheld,
)
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.mcp import McpServer

# They read from their folder what they start; options and arguments can name another folder.
_READS_FOLDER = frozenset(
    """
    npx npm pnpm pnpx yarn bun bunx deno uv make just task cargo go poetry pdm pipenv pixi hatch rye
    rake bundle mvn gradle docker docker-compose podman nix nix-shell direnv mise tox nox dotnet tsx
    ts-node
    """.split()  # noqa: SIM905
)
# What fetches a package and runs it; of all words only those up to the package decide.
_FETCHES = (
    ("npx",), ("pnpx",), ("bunx",), ("npm", "exec"), ("pnpm", "dlx"), ("yarn", "dlx"), ("uvx",),
    ("uv", "tool", "run"), ("pipx", "run"),
)  # fmt: skip
_FLAGS = frozenset(
    """
    -y --yes -q --quiet -v --verbose --no --no-install --offline --prefer-offline --isolated
    --refresh --reinstall -U --upgrade --no-cache --ignore-existing --native-tls
    """.split()  # noqa: SIM905
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
_PYTHON = re.compile(r"python(\d(\.\d+)?)?|pypy\d?")
_WITH_SCRIPT = frozenset("node nodejs ruby perl php java lua Rscript pwsh".split())  # noqa: SIM905
_PYTHON_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_LOADS = frozenset(
    "-r --require --import --loader --experimental-loader --env-file -jar -cp -classpath -I".split()  # noqa: SIM905
)
_MOST_ARGUMENTS = 200
_VERSION = re.compile(r"-\d.*")


class StartedProgram(NamedTuple):
    """What a command consists of."""

    path: str  # absolute, to be started; "" = there is none
    parts: tuple[str, ...]  # absolute: the program, its interpreters, scripts, folders of modules
    reason: str = ""  # why it cannot be held, whatever is protected; "" = it can


def has_rights(server: McpServer) -> bool:
    """True for a server that may do what a confined command of an agent may not."""
    more = server.network or server.environment or server.writable_roots
    return bool(server.command) and (not server.sandboxed or bool(more))


def server_folder(server: McpServer, home: str, cwd: str) -> str:
    """Where the server starts: what comes from no folder of the project starts in the home folder.

    There no file of the project decides what is loaded. A folder that the table names is kept.
    """
    if server.cwd or not has_rights(server) or not home.startswith("/"):
        return server.cwd or cwd
    words = (Path(server.command).name, *server.args)
    if _fetched(words) is not None:
        package = next((word for word in reversed(_fetched(words) or ()) if word), "")
        return cwd if package.startswith(".") else home
    if _PYTHON.fullmatch(words[0]) and "-m" in words[:-1]:
        module = words[words.index("-m") + 1].partition(".")[0]
        is_here = any(os.path.lexists(f"{cwd}/{module}{end}") for end in ("", ".py"))
        return cwd if is_here else home
    return cwd


def _fetched(words: Sequence[str]) -> tuple[str, ...] | None:
    """The words up to the package that is fetched and run; None if nothing is fetched."""
    head = next((one for one in _FETCHES if tuple(words[: len(one)]) == one), None)
    if head is None:
        return None
    found: list[str] = []
    before = ""
    for word in words[len(head) : _MOST_ARGUMENTS]:
        found.append(word)
        if not word.startswith("-") and (not before.startswith("-") or before in _FLAGS):
            break
        before = word
    return tuple(found)


def find_started(
    argv: Sequence[str], lookup: Lookup, environment: Mapping[str, str] | None = None
) -> StartedProgram:
    """What the command consists of.

    Args:
        argv: Not empty.
        lookup: With the folder in which it starts.
        environment: Variables that only this command gets.
    """
    found = find_program(argv[0], lookup)
    path = found.path
    if isinstance(found, UnheldProgram) and not path:
        return StartedProgram("", (), found.reason)
    parts = [path, *environment_folders(path)]
    if not isinstance(found, UnheldProgram):
        for one in found.interpreters:
            parts += [one, *environment_folders(one)]
    for name in SEARCH_VARIABLES:
        folders = (environment or {}).get(name, "").split(":")
        parts += [os.path.join(lookup.cwd, one) for one in folders if one]  # noqa: PTH118
    name = _VERSION.sub("", Path(path).name)
    arguments = argv[1 : _MOST_ARGUMENTS + 1]
    parts += _loaded(name, arguments, lookup.cwd)
    reason = _open_ended(name, arguments, lookup)
    return StartedProgram(path, tuple(dict.fromkeys(parts)), reason)


def why_started_unheld(program: StartedProgram, lookup: Lookup) -> str:
    """Why agents could exchange a part of it now, or nothing is found; "" if they cannot."""
    if lookup.places.everywhere:
        return "" if program.path else program.reason
    if program.reason:
        return program.reason
    found = find_program(program.path, lookup)
    if isinstance(found, UnheldProgram):
        return found.reason
    return next(filter(None, (why_unheld(one, lookup.places) for one in program.parts)), "")


def parts_to_protect(program: StartedProgram, lookup: Lookup) -> tuple[str, ...]:
    """Canonical paths that hold the server if no agent may write them; () if that is impossible.

    A root of agents, or a folder above one, is what they work in. What is missing can be made.
    """
    places = lookup.places
    wanted: list[str] = []
    for part in (one for one in program.parts if why_unheld(one, places)):
        real = os.path.realpath(part)
        if os.path.normpath(part) != real and not _leads_beside(part, real):
            return ()  # a link in the project leads there: it could lead elsewhere
        if real in places.roots or any(root.startswith(f"{real}/") for root in places.roots):
            return ()
        wanted.append(real)
    missing = [one for one in wanted if not os.path.lexists(one)]
    if any(not any(is_within(one, kept) for kept in wanted if kept != one) for one in missing):
        return ()  # an agent could make it
    return () if program.reason else tuple(dict.fromkeys(wanted))


def _leads_beside(part: str, real: str) -> bool:
    """True for a link whose own folder is a part too, as of a Python in its environment."""
    return (Path(part).parent.parent / "pyvenv.cfg").is_file() or real.startswith(
        f"{Path(part).parent}/"
    )


def environment_folders(program: str) -> tuple[str, ...]:
    """The Python environment that a program lies in, as a whole."""
    prefix = Path(program).parent.parent
    return (str(prefix),) if (prefix / "pyvenv.cfg").is_file() else ()


def _loaded(name: str, arguments: Sequence[str], cwd: str) -> Iterator[str]:
    """Scripts and folders of modules that an interpreter is told of."""
    if _PYTHON.fullmatch(name):
        yield from _python_parts(arguments, cwd)
    elif name in _WITH_SCRIPT:
        yield from _script_parts(arguments, cwd)


def _python_parts(arguments: Sequence[str], cwd: str) -> Iterator[str]:
    safe, at = False, 0
    while at < len(arguments):
        word = arguments[at]
        short = word[1:] if word.startswith("-") and not word.startswith("--") else ""
        if short and ("m" in short or "c" in short) and "X" not in short and "W" not in short:
            head = short.partition("m" if "m" in short else "c")[0]
            if not safe and not set(head) & set("IP"):
                yield cwd  # the first place in which modules are looked for
            return
        if short and set(short) & set("IP"):
            safe = True
        if not word.startswith("-"):
            script = os.path.join(cwd, word)  # noqa: PTH118 - `..` after a link
            yield script
            if not safe:
                yield os.path.dirname(os.path.realpath(script))  # noqa: PTH120
            return
        at += 2 if word in _PYTHON_VALUED else 1


def _script_parts(arguments: Sequence[str], cwd: str) -> Iterator[str]:
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if option in _LOADS:
            named = value if equals else rest.pop(0) if rest else ""
            yield from (os.path.join(cwd, one) for one in named.split(":") if one)  # noqa: PTH118
        elif not word.startswith("-"):
            script = os.path.join(cwd, word)  # noqa: PTH118 - `..` after a link
            folder = Path(os.path.realpath(script)).parent
            yield from (script, str(folder))
            for above in folder.parents:
                if (above / "node_modules").is_dir():
                    yield str(above / "node_modules")
            return


def _open_ended(name: str, arguments: Sequence[str], lookup: Lookup) -> str:
    """Why what is started cannot be told from the words; "" if it can."""
    fetched = _fetched((name, *arguments))
    if name not in _SHELLS and name not in _READS_FOLDER and fetched is None:
        return ""
    words = list(_words_of(arguments if fetched is None else fetched))
    further = _READS_FOLDER | _SHELLS | {"source", "."}
    decides = name in _READS_FOLDER or any(Path(word).name in further for word in words)
    if decides and why_unheld(f"{lookup.cwd}/x", lookup.places):
        return (
            f"{name} decides by files of {lookup.cwd} what it starts, and agents may write there; "
            "name another folder as `cwd`"
        )
    for word in words:
        path = os.path.join(lookup.cwd, word)  # noqa: PTH118 - `..` after a link
        is_path = "/" in word or is_program(path)
        if is_path and os.path.lexists(path) and (why := why_unheld(path, lookup.places)):
            return f"{name} is given {why}"
    return ""


def _words_of(arguments: Iterable[str]) -> Iterator[str]:
    for argument in arguments:
        for word in (argument, argument.partition("=")[2]):
            if not any(sign.isspace() for sign in word):
                yield word
                continue
            try:
                yield from shlex.split(word)
            except ValueError:
                yield from word.split()
