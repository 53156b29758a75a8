"""The parts that tell an agent's model something before a request; the list of them.

What a part's service sends to an agent comes here; nothing of it starts a turn.
"""

from collections.abc import Iterable
from typing import assert_never

from swarm.mailbox.parts.findings.finding_messages import ShareFindings
from swarm.mailbox.parts.part_messages import PartOp
from swarm.mailbox.protocol.items import AnyItem, Message
from swarm.mailbox.protocol.sampling import ModelInfo, SampleFailed

from ..base.reporter import Reporter
from .findings.findings_digest import FindingsDigest
from .wakeups.limit_wait import wait_for_limit


class TurnParts:
    """Made once for each agent process."""

    def __init__(self) -> None:
        self._findings = FindingsDigest()  # of other agents

    def take(self, op: PartOp) -> None:
        """Never waits."""
        match op:
            case ShareFindings(findings=findings):
                self._findings.add(findings)
            case _:
                assert_never(op)

    def note_history(self, items: Iterable[AnyItem]) -> None:
        """What the model was shown by an earlier process, or in a history taken over."""
        self._findings.note_history(items)

    def begin_turn(self) -> None:
        self._findings.begin_turn()

    def drain(self) -> list[Message]:
        """What the next request holds behind the history; told once."""
        return self._findings.drain()

    async def outlast(
        self, reporter: Reporter, model: ModelInfo | None, failed: SampleFailed
    ) -> SampleFailed | None:
        """What stands of a provider's final failure; None: it is over, and the turn asks again."""
        return await wait_for_limit(reporter, model, failed)
