"""The commands and skills of this folder that a person may call by `/name`, for the conversation.

They are asked of `swarm commands list` and `swarm skills list`, so that they are those that a run
started here has: of a project that is not trusted, none.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from ...base.safe_text import clean_line
from .slash_commands import OwnCommand
from .swarm_commands import run_swarm_command

_MOST = 1_000
_COLUMNS = 200


class _Listed(msgspec.Struct, frozen=True):
    """A line of `swarm commands list --json` or `swarm skills list --json`."""

    name: str
    description: str = ""
    arguments: str = ""
    enabled: bool = True


async def read_own_commands(
    environment: Mapping[str, str], *, cwd: str | None = None
) -> tuple[OwnCommand, ...]:
    """Command files first, then skills whose name is free. () where they cannot be read."""
    kinds = ("commands", "skills")
    done = await asyncio.gather(
        *(
            run_swarm_command(
                [kind, "list", "--json"], environment=environment, columns=_COLUMNS, cwd=cwd
            )
            for kind in kinds
        )
    )
    found: dict[str, OwnCommand] = {}
    for kind, said in zip(kinds, done, strict=True):
        for one in _parse(said.text if not said.exit_code else ""):
            about = one.description if kind == "commands" else f"skill: {one.description}"
            own = OwnCommand(one.name, clean_line(one.arguments), clean_line(about, limit=160))
            found.setdefault(one.name, own)
    return tuple(found.values())[:_MOST]


def _parse(text: str) -> list[_Listed]:
    listed: list[_Listed] = []
    for line in text.splitlines():
        try:
            one = msgspec.json.decode(line, type=_Listed)
        except (msgspec.DecodeError, UnicodeError):
            continue  # words about an empty list
        if one.enabled:
            listed.append(one)
    return listed
