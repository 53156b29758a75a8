"""Summarises what a command line does, for display only. Never used for a decision.

It drops small formatting commands, follows `cd`, and summarises the rest one by one; one unknown
part makes the whole unknown. Users see a summary only if the policy knows that the command just
reads. A text such as "Read a.py" replaces the command itself, so it must not hide what the command
does: `find . -delete` looks like a listing, and `rg --pre PROGRAM` like a search. Neither is known
to be safe, and both are displayed as they are.

Source: Codex's parse_command (pipeline of section 6).
"""

import posixpath
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from swarm.mailbox.protocol.parsed_command import (
    ListFiles,
    ParsedCommand,
    ReadFile,
    Search,
    Unknown,
    encode_parsed_commands,
)

from .command_facts import CommandFacts
from .program_readers import is_output_filter, operands, parse_simple_command
from .shell_parser import Words, join_words, plain_commands, program_name, shell_script, split_words

__all__ = ["encode_parsed_commands", "parse_command"]

_CONNECTORS = frozenset({"&&", "||", "|", ";"})
_POWERSHELLS = frozenset({"pwsh", "pwsh.exe", "powershell", "powershell.exe"})
_ANSWERS = frozenset({"yes", "no", "y", "n"})


def parse_command(argv: Sequence[str]) -> tuple[ParsedCommand, ...]:
    """What the command does, in order. Empty for a `cd` alone; never raises."""
    if not argv:
        return ()
    script = shell_script(argv)
    if script is None:
        script = _powershell_script(argv)
        meanings = _read_argv(argv) if script is None else [Unknown(cmd=script)]
    else:
        meanings = _read_script(script)
    meanings = [one for at, one in enumerate(meanings) if not at or one != meanings[at - 1]]
    if any(isinstance(one, Unknown) for one in meanings):
        return (Unknown(cmd=join_words(argv) if script is None else script),)
    return tuple(meanings)


def _read_script(script: str) -> list[ParsedCommand]:
    commands = plain_commands(script)
    if commands is None:
        return [Unknown(cmd=script)]
    kept = [words for words in commands if not is_output_filter(words)]
    if not kept:
        return [Unknown(cmd=script)]
    meanings = _simplify(_follow_folders(kept))
    if len(meanings) == 1:
        return [_attribute(meanings[0], script, is_alone=len(commands) == 1)]
    return meanings


def _read_argv(argv: Sequence[str]) -> list[ParsedCommand]:
    words = list(argv)
    if len(words) > 2 and words[0] in _ANSWERS and words[1] == "|":
        words = words[2:]
    commands: list[list[str]] = [[]]
    for word in words:
        if word in _CONNECTORS:
            commands.append([])
        else:
            commands[-1].append(word)
    return _simplify(_follow_folders([tuple(one) for one in commands if one]))


def _follow_folders(commands: Sequence[Words]) -> list[ParsedCommand]:
    """Summarise each command; a `cd` changes the path of the files that are read after it."""
    folder: str | None = None
    meanings: list[ParsedCommand] = []
    for words in commands:
        if words[0] == "cd":
            targets = operands(words[1:])
            if targets:
                folder = posixpath.join(folder or "", targets[-1])
            continue
        meaning = parse_simple_command(words)
        if isinstance(meaning, ReadFile) and folder:
            path = posixpath.join(folder, meaning.path)
            meaning = msgspec.structs.replace(meaning, path=path)
        meanings.append(meaning)
    return meanings


def _simplify(meanings: list[ParsedCommand]) -> list[ParsedCommand]:
    while len(meanings) > 1:
        at = _needless(meanings)
        if at is None:
            break
        meanings = [*meanings[:at], *meanings[at + 1 :]]
    return meanings


def _needless(meanings: Sequence[ParsedCommand]) -> int | None:
    """The index of a part that adds nothing to the others."""
    for at, meaning in enumerate(meanings):
        if not isinstance(meaning, Unknown):
            continue
        match split_words(meaning.cmd):
            case ["echo", *_] if at == 0:
                return at
            case ["cd", *_] if at + 1 < len(meanings):
                return at
            case ["true"]:
                return at
            case ["nl", *rest] if all(word.startswith("-") for word in rest):
                return at
            case _:
                pass
    return None


def _attribute(meaning: ParsedCommand, script: str, *, is_alone: bool) -> ParsedCommand:
    """Set the text that the one remaining meaning stands for."""
    words = split_words(script) or [script]
    if isinstance(meaning, Unknown):
        return meaning
    if is_alone and not _CONNECTORS.intersection(words):
        return msgspec.structs.replace(meaning, cmd=join_words(words))
    cut_by_sed = any(pair == ("sed", "-n") for pair in pairwise(words))
    if isinstance(meaning, ReadFile) and "|" in words and cut_by_sed:
        return msgspec.structs.replace(meaning, cmd=script)
    return meaning


def _powershell_script(argv: Sequence[str]) -> str | None:
    if program_name(argv[0]).rpartition("\\")[2].lower() not in _POWERSHELLS:
        return None
    match list(argv[1:]):
        case ["-Command", script] | ["-NoProfile", "-Command", script]:
            return script
        case _:
            return None


_MOST_WORDS_CHARS = 4_000  # the longest command that is summarised
_MOST_PARTS = 8
_MOST_CHARS = 2_000  # of all texts together: a record keeps them beside the command


def only_reads(facts: CommandFacts) -> bool:
    """Whether each part of the command is known to change nothing."""
    known = facts.shell_is_known and not facts.is_complex and bool(facts.commands)
    return known and all(one.is_safe for one in facts.commands)


def shown_meanings(facts: CommandFacts) -> tuple[ParsedCommand, ...]:
    """What it reads, lists and searches, in order; empty if it must be displayed as it is."""
    if not only_reads(facts) or sum(map(len, facts.argv)) > _MOST_WORDS_CHARS:
        return ()
    meanings = parse_command(facts.argv)
    if len(meanings) > _MOST_PARTS or any(isinstance(one, Unknown) for one in meanings):
        return ()
    return meanings if sum(map(_chars, meanings)) <= _MOST_CHARS else ()


def _chars(meaning: ParsedCommand) -> int:
    match meaning:
        case ReadFile(cmd=cmd, name=name, path=path):
            return len(cmd) + len(name) + len(path)
        case ListFiles(cmd=cmd, path=path):
            return len(cmd) + len(path or "")
        case Search(cmd=cmd, query=query, path=path):
            return len(cmd) + len(query or "") + len(path or "")
        case Unknown(cmd=cmd):
            return len(cmd)
