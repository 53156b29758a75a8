"""The panel of a run in this terminal: its keys, and the run's own control socket for answers."""

import sys
from collections.abc import AsyncGenerator

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.control import Done, ResolveApproval

from ..console.prompt_keys import can_read, read_keys
from ..console.prompting import Panel
from ..places import RunPlaces
from .asking import ask


def open_panel(here: RunPlaces) -> Panel | None:
    """None where no keys can be read; another terminal can answer all the same."""
    if not can_read(sys.stdin):
        return None

    def keys() -> AsyncGenerator[str, None]:
        return read_keys(sys.stdin)

    async def answer(wish: ResolveApproval) -> tuple[str, bool]:
        try:
            reply = await ask(here, wish)
        except SwarmError as error:
            return str(error), True
        return (reply.message if isinstance(reply, Done) else ""), False

    return Panel(keys, answer)
