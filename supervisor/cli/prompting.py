"""The panel of a run in this terminal: answers go through the run's own control socket."""

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.control import Done, ResolveApproval

from ..console.prompting import Panel
from ..places import RunPlaces
from .asking import ask


def open_panel(here: RunPlaces) -> Panel:
    """Its keys are brought by whoever reads them."""

    async def answer(wish: ResolveApproval) -> tuple[str, bool]:
        try:
            reply = await ask(here, wish)
        except SwarmError as error:
            return str(error), True
        return (reply.message if isinstance(reply, Done) else ""), False

    return Panel(answer)
