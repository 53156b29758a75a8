"""The approval panel of a run in this terminal; answers go through the run's control socket."""

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.control import Done, ResolveApproval

from ..console.approval_panel import ApprovalPanel
from ..runs.paths import RunPaths
from .control_client import send_request


def make_approval_panel(here: RunPaths) -> ApprovalPanel:
    """Make the panel; the keyboard reader passes keys to it."""

    async def answer(wish: ResolveApproval) -> tuple[str, bool]:
        try:
            reply = await send_request(here, wish)
        except SwarmError as error:
            return str(error), True
        return (reply.message if isinstance(reply, Done) else ""), False

    return ApprovalPanel(answer)
