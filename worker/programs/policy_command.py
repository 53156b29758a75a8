"""`parse-command` and `explain`: how a command is displayed, and what would happen to it here.

Run as `python -P -m swarm.worker.programs.policy_command`; the CLI starts it by that name.
"""

import sys

from swarm.mailbox.protocol.parsed_command import (
    ListFiles,
    ParsedCommand,
    ReadFile,
    Search,
    Unknown,
)

from ..policy.command_summary import encode_parsed_commands, parse_command

USAGE = (
    "Usage: parse-command [--json] -- COMMAND [ARGUMENT]...\n"
    "       explain SITUATION [--json] -- COMMAND [ARGUMENT]..."
)


def main(arguments: list[str]) -> int:
    """Run the command that the first word names; return the exit code (2 = usage)."""
    if arguments[:1] == ["explain"]:
        from .explanation_output import run_explain  # slow: probes the sandbox (20 ms)

        return run_explain([_as_text(word) for word in arguments[1:]])
    return _parse_command(arguments)


def _parse_command(arguments: list[str]) -> int:
    """Print the meanings, one a line or as one JSON list."""
    match arguments:
        case ["parse-command", "--json", *rest]:
            as_json = True
        case ["parse-command", *rest]:
            as_json = False
        case _:
            rest, as_json = [], False
    argv = rest[1:] if rest[:1] == ["--"] else rest
    if not argv:
        sys.stderr.write(USAGE + "\n")
        return 2
    meanings = parse_command([_as_text(word) for word in argv])
    if as_json:
        shown = encode_parsed_commands(meanings).decode()
        sys.stdout.write(shown + "\n")
    else:
        sys.stdout.writelines(describe(meaning) + "\n" for meaning in meanings)
    return 0


def describe(meaning: ParsedCommand) -> str:
    """One line for display."""
    match meaning:
        case ReadFile():
            return f"read {meaning.path}"
        case ListFiles():
            return f"list {meaning.path or '.'}"
        case Search():
            where = f" in {meaning.path}" if meaning.path else ""
            return f"search {meaning.query or ''}{where}"
        case Unknown():
            return f"unknown {meaning.cmd}"


def _as_text(word: str) -> str:
    """Decode a process argument, which may be any bytes; invalid ones become U+FFFD."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
