"""Finds the one file that a program's name means, and says whether agents could exchange it.

Whatever runs outside of a sandbox is found once, by this module, and started by the absolute path
that it returns. A program is *held* if no agent of the run may write it, a folder or a link on the
way to it, or an interpreter that its first line names. Only reads. Blocks.
"""

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..protocol.values.base import Value
from ..protocol.values.limits import SandboxPolicy
from .first_lines import interpreter_words
from .path_rules import is_within
from .protected_paths import find_protected_places
from .safe_open import read_user_file
from .writable_places import WritablePlaces, closed_paths, places_of, writable_roots

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_MOST_LINKS = 40  # as the kernel
_MOST_INTERPRETERS = 5
_FIRST_LINE_BYTES = 256  # as the kernel reads
_MOST_SITE_BYTES = 64 << 10
_MOST_SITE_FILES = 200
# Variables that name folders (or files) whose content is run, separated by colons.
SEARCH_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "NODE_PATH", "PERL5LIB", "PERLLIB", "RUBYLIB",
    "GEM_PATH", "CLASSPATH", "GIT_EXEC_PATH",
)  # fmt: skip
# Variables that name one file or folder, or options for a program's start.
START_VARIABLES = (
    "LD_PRELOAD", "LD_AUDIT", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "NODE_OPTIONS",
    "LUA_PATH", "LUA_CPATH", "PERL5OPT", "RUBYOPT", "GEM_HOME", "JAVA_TOOL_OPTIONS", "BASH_ENV",
    "ENV", "ZDOTDIR",
    "GCONV_PATH", "OPENSSL_CONF", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_TEMPLATE_DIR",
    "GIT_SSH", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_EXTERNAL_DIFF", "GIT_EDITOR", "EDITOR", "VISUAL",
    "PAGER", "GIT_PAGER", "BROWSER", "PIP_PYTHON", "PIP_CONFIG_FILE", "PIP_LOG", "UV_PYTHON",
    "UV_CONFIG_FILE",
)  # fmt: skip


class HeldProgram(Value):
    """A program that no agent can exchange."""

    path: str  # absolute; a link is kept, since programs look at the name by which they start
    interpreters: tuple[str, ...] = ()  # absolute, in the order in which they are started


class UnheldProgram(Value):
    """A program that must not run outside of a sandbox."""

    name: str
    reason: str  # a clause: "/p/.venv/bin/pytest lies in /p, where agents may write"
    path: str = ""  # what was found; "" = nothing


FoundProgram = HeldProgram | UnheldProgram


class Lookup(NamedTuple):
    """Where programs are looked for, and where agents may write."""

    path: str  # the variable PATH
    cwd: str  # for relative names and entries
    places: WritablePlaces


def find_writable_places(
    policy: SandboxPolicy, cwd: str, *, extra: Iterable[str] = (), shut: Iterable[str] = ()
) -> WritablePlaces:
    """Where agents under this policy may write.

    Args:
        cwd: Their working folder.
        extra: More folders that they may write: granted ones, copies of the project.
        shut: What the run closes besides the protected names.
    """
    given = (*writable_roots(policy, cwd), *extra)
    roots = tuple(os.path.realpath(one) for one in given if one)
    closed = (*find_protected_places(roots), *closed_paths(policy), *map(os.path.realpath, shut))
    return places_of(policy, roots, closed)


def find_program(name: str, lookup: Lookup) -> FoundProgram:
    """The program that the name means there; the first one found decides, wherever it lies."""
    for path in _candidates(name, lookup):
        if is_program(path):
            return _judge(name, path, lookup, depth=0)
    return _missing(name, lookup)


def find_own_program(name: str, lookup: Lookup) -> FoundProgram:
    """As `find_program`, for what swarm itself needs: one that is not held is passed over."""
    first: UnheldProgram | None = None
    for path in _candidates(name, lookup):
        if is_program(path):
            found = _judge(name, path, lookup, depth=0)
            if isinstance(found, HeldProgram):
                return found
            first = first or found
    return first or _missing(name, lookup)


def is_program(path: str) -> bool:
    """True for a file that may be started."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)  # noqa: PTH116
    except (OSError, ValueError):
        return False


def why_unheld(path: str, places: WritablePlaces) -> str:
    """Why agents could exchange the file at this absolute path; "" if they cannot.

    In a run without a sandbox nothing can be held, so nothing is told apart: "". Such a run says so
    once, at its start.
    """
    if places.everywhere:
        return ""
    for step, is_end in _steps(path):
        root = places.root_of(step)
        if root and (is_end or places.may_exchange(step)):
            if is_within(os.path.normpath(path), step):
                return f"{path} lies in {root}, where agents may write"
            return f"{step} (on the way to {path}) lies in {root}, where agents may write"
    return ""


def held_environment(environment: Mapping[str, str], lookup: Lookup) -> dict[str, str]:
    """The variables, without what would lead a held program to files that agents may write.

    Folders of search paths are left out one by one, and so are empty and relative ones.
    """
    places = lookup.places
    kept = dict(environment)
    if places.everywhere:
        return kept
    for name in SEARCH_VARIABLES:
        if name in kept:
            folders = kept[name].split(":")
            held = [one for one in folders if one.startswith("/") and not why_unheld(one, places)]
            kept[name] = ":".join(held)
            if not held:
                del kept[name]
    kept["PATH"] = kept.get("PATH") or DEFAULT_PATH
    for name in START_VARIABLES:
        if name in kept and _mentions(kept[name], lookup):
            del kept[name]
    home = environment.get("HOME", "")
    if home and why_unheld(home, places):
        kept["PYTHONNOUSERSITE"] = "1"  # packages below the home folder are loaded at each start
    return kept


@contextmanager
def held_process_environment(lookup: Lookup) -> Iterator[None]:
    """In the block, this process and what it starts find held programs and modules alone."""
    before, modules = dict(os.environ), list(sys.path)
    try:
        _set_environment(held_environment(before, lookup))
        sys.path[:] = [
            one for one in modules if one[:1] != "/" or not why_unheld(one, lookup.places)
        ]
        yield
    finally:
        _set_environment(before)
        sys.path[:] = modules


def _set_environment(wanted: Mapping[str, str]) -> None:
    for name in [one for one in os.environ if one not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:  # a title can be set while the first entries are old ones
            os.environ[name] = value


def _mentions(text: str, lookup: Lookup) -> bool:
    """True if a word of the text is a path that agents may write."""
    words = re.split(r"[\s=:,;]+", text)
    paths = (_joined(lookup.cwd, word) for word in words if "/" in word or word[:1] == ".")
    return any(why_unheld(path, lookup.places) for path in paths)


def _candidates(name: str, lookup: Lookup) -> Iterator[str]:
    if not name or "\0" in name:
        return
    if "/" in name:
        yield _joined(lookup.cwd, name)
        return
    for folder in (lookup.path or DEFAULT_PATH).split(":"):
        yield _joined(lookup.cwd, folder, name)


def _joined(*steps: str) -> str:
    """As the kernel reads it: `..` stays, since a link may come before it."""
    return os.path.join(*steps)  # noqa: PTH118 - a Path would normalise it


def _missing(name: str, lookup: Lookup) -> UnheldProgram:
    said = _joined(lookup.cwd, name) if "/" in name else f"{name!r} in the folders of PATH"
    return UnheldProgram(name=name, reason=f"there is no program {said}")


def _judge(name: str, path: str, lookup: Lookup, *, depth: int) -> FoundProgram:
    def unheld(reason: str) -> UnheldProgram:
        return UnheldProgram(name=name, reason=reason, path=path)

    if reason := why_unheld(path, lookup.places):
        return unheld(reason)
    if depth > _MOST_INTERPRETERS:
        return unheld(f"{path} names one interpreter after the other")
    if reason := _imports_from(path, lookup.places):
        return unheld(reason)
    try:
        words = interpreter_words(_first_line(path))
    except (OSError, ValueError) as error:
        return unheld(f"the first line of {path} cannot be read: {error}")
    found: list[str] = []
    for word in words:
        below = next(
            (
                _judge(word, one, lookup, depth=depth + 1)
                for one in _candidates(word, lookup)
                if is_program(one)
            ),
            _missing(word, lookup),
        )
        if isinstance(below, UnheldProgram):
            return unheld(f"{path} is run by {word}, and {below.reason}")
        found += [below.path, *below.interpreters]
    return HeldProgram(path=path, interpreters=tuple(dict.fromkeys(found)))


def _first_line(path: str) -> bytes:
    with open(os.path.realpath(path), "rb", buffering=0) as file:  # noqa: PTH123
        return file.read(_FIRST_LINE_BYTES).partition(b"\n")[0]


def _steps(path: str) -> Iterator[tuple[str, bool]]:
    """Every folder, link and file on the way, canonical but for its last name; the end is True."""
    rest = [step for step in reversed(path.split("/")) if step not in ("", ".")]
    here, links = "/", 0
    while rest:
        step = rest.pop()
        if step == "..":
            here = here.rpartition("/")[0] or "/"
            continue
        there = f"{here.rstrip('/')}/{step}"
        try:
            target = os.readlink(there)  # noqa: PTH115 - text
        except OSError:
            yield there, not rest
            here = there
            continue
        yield there, False
        links += 1
        if links > _MOST_LINKS:
            return
        here = "/" if target.startswith("/") else here
        rest += [one for one in reversed(target.split("/")) if one not in ("", ".")]


def _imports_from(path: str, places: WritablePlaces) -> str:
    """Why the Python environment that a program lies in loads files that agents may write."""
    prefix = Path(path).parent.parent
    is_environment = (prefix / "pyvenv.cfg").is_file()
    if not is_environment and not Path(path).name.startswith("python"):
        return ""
    if not is_environment:
        prefix = Path(os.path.realpath(path)).parent.parent
    folders = (
        *prefix.glob("lib/python3*/site-packages"),
        *prefix.glob("lib/python3*/dist-packages"),
    )
    for file in (file for folder in folders for file in _start_files(folder)):
        try:
            text = read_user_file(file, most_bytes=_MOST_SITE_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        named = next((root for root in places.roots if _names_root(text, root)), "")
        if named:
            return f"{prefix} is a Python that loads modules from {named} ({file.name})"
    return ""


def _start_files(folder: Path) -> list[Path]:
    """What Python runs at its start there: path files, and the finders of editable packages."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return []
    found = [
        name
        for name in names
        if name.endswith(".pth") or (name.startswith("__editable__") and name.endswith(".py"))
    ]
    return [folder / name for name in found[:_MOST_SITE_FILES]]


def _names_root(text: str, root: str) -> bool:
    words = text.replace("'", "\n").replace('"', "\n").splitlines()
    return any(is_within(os.path.normpath(word), root) for word in words if word.startswith("/"))
