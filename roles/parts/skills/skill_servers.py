"""What is said of MCP servers that a skill needs and nobody has configured. Pure."""

import shlex
from collections.abc import Iterator, Set

from .skill_file import NeededServer, Skill


def missing_servers(skill: Skill, configured: Set[str]) -> Iterator[str]:
    """A line for each server that the skill needs and that is not configured, with the command."""
    for server in skill.servers:
        if server.name not in configured:
            yield (
                f"skill {skill.name} needs the MCP server {server.name}, which is not configured; "
                f"if you trust it: {add_command(server)}"
            )


def add_command(server: NeededServer) -> str:
    """The command that adds the server, each word quoted."""
    words = ["swarm", "mcp", "add", server.name]
    if server.url:
        words += ["--url", server.url]
    elif server.command:
        words += ["--", *_words(server.command)]
    else:
        return f"{shlex.join(words)} -- COMMAND"
    return shlex.join(words)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quote
        return [command]
