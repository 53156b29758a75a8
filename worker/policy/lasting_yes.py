"""What a yes that lasts depends on besides a command's words: files that agents may write. Reads.

A command outside of the sandbox is known by its words. What it does is also said by scripts and
data that it is given; a yes for the session holds while these are the same. Where that cannot be
told (git settings, a project's own code, a large folder), a yes holds once.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from swarm.mailbox.base.held_programs import why_unheld
from swarm.mailbox.protocol.values.base import Value

from .git_call import read_git_call
from .git_settings import why_git_unheld
from .rule_coverage import Surroundings, why_project_unheld
from .script_commands import named_commands
from .shell_parser import Words, shell_script

_MOST_FILES = 300
_MOST_BYTES = 4 << 20
_MOST_TOKENS = 2_000
_MOST_NAMED = 40  # of one command
_TOKEN = re.compile(r"""[^\s;|&<>()'"`=,]+""")


class LastingYes(Value):
    """`files` are part of the key of a lasting yes; `why_not`: there can be none."""

    files: dict[str, str] = {}  # digest by path
    why_not: str = ""


class _TooMuch(Exception):
    """More files than are read for a yes."""


def find_lasting(argv: Words, commands: Iterable[Words], here: Surroundings) -> LastingYes:
    """What a yes to this command, outside of the sandbox, depends on."""
    if here.places.everywhere:
        return LastingYes()
    for words in dict.fromkeys((*commands, *named_commands(argv))):
        if not words:
            continue
        call = read_git_call(words)
        if call is not None:
            folder = os.path.join(here.folder, call.folder)  # noqa: PTH118 - text
            why = why_git_unheld(folder, here.home, here.places)
        else:
            why = why_project_unheld(words, here)
        if why:
            return LastingYes(why_not=why)
    try:
        return LastingYes(files=_digests(_paths(argv, here), here))
    except (_TooMuch, OSError) as error:
        return LastingYes(why_not=f"it reads files that agents may write: {error}")


def _paths(argv: Words, here: Surroundings) -> list[str]:
    """Files and folders that words of the command name, where agents may write."""
    script = shell_script(argv)
    tokens = list(argv[1:]) if script is None else _TOKEN.findall(script)
    if len(tokens) > _MOST_TOKENS:
        raise _TooMuch("it has too many words")
    found: dict[str, None] = {}
    for before, token in zip(["", *tokens], tokens, strict=False):
        path = os.path.join(here.folder, os.path.expanduser(token))  # noqa: PTH111, PTH118 - text
        if before in ("cd", "-C") or "\0" in path or not os.path.lexists(path):
            continue
        if why_unheld(path, here.places):
            found[os.path.normpath(path)] = None
    if len(found) > _MOST_NAMED:
        raise _TooMuch("it names too many")
    return list(found)


def _digests(paths: list[str], here: Surroundings) -> dict[str, str]:
    budget = [_MOST_FILES, _MOST_BYTES]
    return {path: _digest(path, budget) for path in paths if path != here.folder}


def _digest(path: str, budget: list[int]) -> str:
    """Of a file its content, of a folder the names and contents below it; links by their target."""
    if not Path(path).is_dir():
        return _digest_file(path, budget)
    whole = hashlib.sha256()
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            one = f"{folder}/{name}"
            whole.update(f"{one}\0{_digest_file(one, budget)}\0".encode("utf-8", "surrogatepass"))
        budget[0] -= len(folders)
        if budget[0] < 0:
            raise _TooMuch(f"{path} holds too many")
    return whole.hexdigest()


def _digest_file(path: str, budget: list[int]) -> str:
    if not Path(path).is_file():  # also a link that leads nowhere
        return "none"
    size = os.stat(path).st_size  # noqa: PTH116 - text
    budget[0] -= 1
    budget[1] -= size
    if min(budget) < 0:
        raise _TooMuch(f"{path} is one too many")
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # exchanged since the look above
            return "none"
        return hashlib.sha256(file.read(size + 1)).hexdigest()
