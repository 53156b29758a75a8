"""The person at another terminal: answers what waits for a yes, and remembers what was said."""

from contextlib import suppress

import trio
from stage import Stage

from swarm.mailbox.control import ask_control
from swarm.mailbox.errors import MailboxError
from swarm.mailbox.protocol.control import (
    Approvals,
    ListApprovals,
    ResolveApproval,
    decode_control_reply,
    encode_control,
)

_LOOK_S = 0.15
_LIMIT_S = 3.0


class Person:
    """Says yes to what asks to be allowed, else no. `said`: approval and its words → the answer."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.said: dict[tuple[str, str], bool] = {}

    async def answer(self) -> None:
        """Look and answer until cancelled; a run that does not answer is asked again."""
        while True:
            await trio.sleep(_LOOK_S)
            with suppress(MailboxError, OSError):
                await self._look()

    async def _look(self) -> None:
        if not self._stage.run_id:
            return
        control = self._stage.places.control
        raw = await ask_control(control, encode_control(ListApprovals()), timeout_s=_LIMIT_S)
        listed = decode_control_reply(raw)
        if not isinstance(listed, Approvals):
            return
        for entry in listed.entries:
            if entry.denied or entry.reviewer != "person":
                continue
            yes = entry.request.reason.startswith("allow ")
            self.said[entry.approval_id, entry.request.reason] = yes
            wish = ResolveApproval(approval_id=entry.approval_id, approve=yes, reason="so it is")
            await ask_control(control, encode_control(wish), timeout_s=_LIMIT_S)
