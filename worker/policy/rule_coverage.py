"""Whether an allow rule says all that a command would do outside of the sandbox. Reads the disk.

A rule takes a command out of the sandbox by its words. They do not say what further words write or
run, what the settings of a git repository run, what a script file holds that agents may write, or
what the project's own code does. Where one of these is left, the command runs inside.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.base.held_programs import why_unheld
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.roles.rules.program_effects import (
    effects_of,
    find_more,
    named_files,
    runs_project_code,
)

from .command_facts import PolicyCommand, RuleMatch
from .git_call import read_git_call
from .git_settings import why_git_unheld
from .shell_parser import Words

_MOST_WORDS = 200  # of a command, each looked up as a file


class Surroundings(NamedTuple):
    """Where a command would run, and where agents may write."""

    folder: str
    places: WritablePlaces
    home: str


def why_beyond(commands: tuple[PolicyCommand, ...], here: Surroundings) -> str:
    """Why the rules that allow these commands do not say all that they would do; "" if they do."""
    if here.places.everywhere:
        return ""
    for command in commands:
        if command.words[:1] == ("cd",) and len(command.words) == 2:
            here = here._replace(folder=_joined(here.folder, command.words[1]))
        if why := _why_none(command, here):
            return why
    return ""


def _why_none(command: PolicyCommand, here: Surroundings) -> str:
    """Why none of the rules that allow it says all; the reason of the one that says most."""
    allowing = [match for match in command.rules if match.decision == "allow"]
    allowing.sort(key=lambda match: len(match.matched_prefix), reverse=True)
    whys = ["" if match.unconfined else _why_one(command.words, match, here) for match in allowing]
    return whys[0] if whys and all(whys) else ""


def _why_one(words: Words, match: RuleMatch, here: Surroundings) -> str:
    if more := find_more(match.matched_prefix, words):
        return more
    call = read_git_call(words)
    if call is not None:
        folder = _joined(here.folder, call.folder) if call.folder else here.folder
        return why_git_unheld(folder, here.home, here.places)
    if why := why_project_unheld(words, here):
        return why
    for path in _code_files(words, here.folder):
        if why := why_unheld(path, here.places):
            return why
    return ""


def why_project_unheld(words: Words, here: Surroundings) -> str:
    """Why a command that runs the project's own code runs what agents wrote; "" if it does not."""
    where = _writable_folder(words, here) if runs_project_code(words) else ""
    if not where:
        return ""
    return f"{words[0]} runs the project's own code, and agents may write in {where}"


def _writable_folder(words: Words, here: Surroundings) -> str:
    """The folder of the project whose code runs, if agents may write it."""
    values = (word.partition("=")[2] or word for word in words[1:_MOST_WORDS])
    paths = (_joined(here.folder, word) for word in ("", *values) if "\0" not in word)
    found = (path for path in paths if os.path.lexists(path) and why_unheld(path, here.places))
    return next(found, "")


def _code_files(words: Words, folder: str) -> Iterator[str]:
    """Files that exist and whose text the command runs, or reads as its settings."""
    for word in named_files(words):
        if word and Path(path := _joined(folder, word)).is_file():
            yield path
    if not effects_of(words[0]).script:
        return
    for word in words[1:_MOST_WORDS]:
        if not word.startswith("-") and os.path.lexists(path := _joined(folder, word)):
            yield path
            if Path(path).is_file():
                return


def _joined(folder: str, word: str) -> str:
    return os.path.join(folder, os.path.expanduser(word))  # noqa: PTH111, PTH118 - text
