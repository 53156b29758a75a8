"""The person at another terminal: answers what waits for a yes, speaks, and remembers both."""

import random
from collections.abc import Sequence
from contextlib import suppress

import trio
from chaos_testbed import ChaosTestbed

from swarm.mailbox.base.errors import MailboxError
from swarm.mailbox.delivery.control_channel import send_control_request
from swarm.mailbox.protocol.control import (
    Approvals,
    Done,
    ListApprovals,
    ResolveApproval,
    SendText,
    decode_control_reply,
    encode_control,
)

_LOOK_S = 0.15
_SPEAK_EVERY_S = (0.5, 4.0)
_LIMIT_S = 3.0


class SimulatedPerson:
    """Says yes to what asks to be allowed, else no. `said`: approval and its words → the answer."""

    def __init__(self, stage: ChaosTestbed) -> None:
        self._stage = stage
        self.answers: dict[tuple[str, str], bool] = {}
        self.sent_messages: dict[str, str] = {}  # what was taken: the words → for whom

    async def answer_approvals(self) -> None:
        """Look and answer until cancelled; a run that does not answer is asked again."""
        while True:
            await trio.sleep(_LOOK_S)
            with suppress(MailboxError, OSError):
                await self._answer_pending()

    async def send_messages(
        self, paths: Sequence[str], lots: random.Random, seconds: float
    ) -> None:
        """Say something to somebody now and then, so long; whoever is not there is left alone."""
        end = trio.current_time() + seconds
        number = 0
        while trio.current_time() < end:
            await trio.sleep(lots.uniform(*_SPEAK_EVERY_S))
            number += 1
            with suppress(MailboxError, OSError):
                await self._send_message(
                    f"[[word {number}]]", lots.choice(paths), wake=lots.random() < 0.8
                )

    async def _send_message(self, text: str, path: str, *, wake: bool) -> None:
        if not self._stage.run_id:
            return
        planned = encode_control(SendText(agent=path, text=text, wake=wake))
        control = self._stage.places.control_endpoint
        raw = await send_control_request(control, planned, timeout_s=_LIMIT_S)
        if isinstance(decode_control_reply(raw), Done) and wake:
            self.sent_messages[text] = path

    async def _answer_pending(self) -> None:
        if not self._stage.run_id:
            return
        control = self._stage.places.control_endpoint
        raw = await send_control_request(
            control, encode_control(ListApprovals()), timeout_s=_LIMIT_S
        )
        listed = decode_control_reply(raw)
        if not isinstance(listed, Approvals):
            return
        for entry in listed.entries:
            if entry.denied or entry.reviewer != "person":
                continue
            yes = entry.request.reason.startswith("allow ")
            self.answers[entry.approval_id, entry.request.reason] = yes
            planned = ResolveApproval(approval_id=entry.approval_id, approve=yes, reason="so it is")
            await send_control_request(control, encode_control(planned), timeout_s=_LIMIT_S)
