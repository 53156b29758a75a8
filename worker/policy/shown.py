"""How users see a command: summarised only if the policy knows that it just reads. Pure.

A text such as "Read a.py" replaces the command itself, so it must not hide what the command does.
`find . -delete` looks like a listing, and `rg --pre PROGRAM` like a search: neither is known to be
safe, and both are displayed as they are.
"""

from swarm.mailbox.protocol.parsed_command import (
    ListFiles,
    ParsedCommand,
    ReadFile,
    Search,
    Unknown,
)

from .command_facts import CommandFacts
from .command_parser import parse_command

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
