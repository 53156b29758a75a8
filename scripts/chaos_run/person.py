"""The person at another terminal: answers what waits for a yes, speaks, and remembers both."""

import random
from collections.abc import Sequence
from contextlib import suppress

import trio
from stage import Stage

from swarm.mailbox.control import ask_control
from swarm.mailbox.errors import MailboxError
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


class Person:
    """Says yes to what asks to be allowed, else no. `said`: approval and its words → the answer."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.said: dict[tuple[str, str], bool] = {}
        self.words: dict[str, str] = {}  # what was taken: the words → for whom

    async def answer(self) -> None:
        """Look and answer until cancelled; a run that does not answer is asked again."""
        while True:
            await trio.sleep(_LOOK_S)
            with suppress(MailboxError, OSError):
                await self._look()

    async def speak(self, paths: Sequence[str], lots: random.Random, seconds: float) -> None:
        """Say something to somebody now and then, so long; whoever is not there is left alone."""
        end = trio.current_time() + seconds
        number = 0
        while trio.current_time() < end:
            await trio.sleep(lots.uniform(*_SPEAK_EVERY_S))
            number += 1
            with suppress(MailboxError, OSError):
                await self._say(f"[[word {number}]]", lots.choice(paths), wake=lots.random() < 0.8)

    async def _say(self, text: str, path: str, *, wake: bool) -> None:
        if not self._stage.run_id:
            return
        wish = encode_control(SendText(agent=path, text=text, wake=wake))
        control = self._stage.places.control
        raw = await ask_control(control, wish, timeout_s=_LIMIT_S)
        if isinstance(decode_control_reply(raw), Done) and wake:
            self.words[text] = path

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
