"""Waits for the end of a turn for a tool call: shows the tree, asks the client for approvals."""

from contextlib import suppress

import anyio
import anyio.to_thread

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.control import ResolveApproval

from ...journal.journal_reader import last_seq
from ..client import LiveRun
from ..client.run_events import RunEvents, open_events
from .calling_client import CallObserver
from .run_report import RunReport, report_run, tree_text
from .turn_progress import AwaitedTurn, TurnProgress

_SHOW_INTERVAL_S = 0.5


class TurnWait:
    """One wait, for one call.

    Args:
        run: Whose turn.
        awaited: Which turn.
        client: Is shown the tree, and is asked if it can be.
    """

    def __init__(self, run: LiveRun, awaited: AwaitedTurn, client: CallObserver) -> None:
        self._run, self._awaited, self._client = run, awaited, client
        self._progress = TurnProgress(awaited, 0)
        self._asked: dict[str, anyio.CancelScope] = {}

    @property
    def approvals(self) -> tuple[PendingApproval, ...]:
        """What waits for a person now."""
        return self._progress.approvals

    def report(self) -> RunReport:
        """The run as it is now."""
        progress = self._progress
        return report_run(
            self._run.run_id, progress.view(), progress.turn, progress.approvals,
            alive=self._run.is_alive,
        )  # fmt: skip

    async def wait(self, *, limit_s: float | None = None) -> RunReport:
        """Until the turn's end, an approval that this client cannot be asked about, or the limit.

        The past is always read, whatever the limit. Raises SwarmError if the run cannot be read.
        """
        newest = await anyio.to_thread.run_sync(last_seq, self._run.paths)
        self._progress = TurnProgress(self._awaited, newest)
        async with open_events(self._run.paths) as events:
            await self._read(events, is_past=True)
            if not self._is_over() and limit_s != 0:
                with anyio.move_on_after(limit_s):
                    await self._read_present(events)
        return self.report()

    async def _read_present(self, events: RunEvents) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._show_tree)
            self._ask_waiting(tasks)
            await self._read(events, is_past=False, tasks=tasks)
            tasks.cancel_scope.cancel()

    async def _read(
        self, events: RunEvents, *, is_past: bool, tasks: anyio.abc.TaskGroup | None = None
    ) -> None:
        while not (self._progress.is_current if is_past else self._is_over()):
            event = await events.receive()
            if event is None:
                self._progress.end()
                return
            self._progress.apply(event)
            if self._progress.has_begun:
                await self._client.follow(event)
            if tasks is not None:
                self._ask_waiting(tasks)

    def _is_over(self) -> bool:
        progress = self._progress
        waits_in_vain = bool(progress.approvals) and not self._client.can_ask
        return progress.turn is not None or waits_in_vain

    async def _show_tree(self) -> None:
        while True:
            await self._client.show(tree_text(self._progress.view()))
            await anyio.sleep(_SHOW_INTERVAL_S)

    def _ask_waiting(self, tasks: anyio.abc.TaskGroup) -> None:
        """Ask about what is new; take back what somebody else has answered."""
        waiting = {one.approval_id: one for one in self._progress.approvals}
        for approval_id in [one for one in self._asked if one not in waiting]:
            self._asked.pop(approval_id).cancel()
        for approval_id, pending in waiting.items():
            if approval_id not in self._asked and self._client.can_ask:
                self._asked[approval_id] = scope = anyio.CancelScope()
                tasks.start_soon(self._ask, pending, scope)

    async def _ask(self, pending: PendingApproval, scope: anyio.CancelScope) -> None:
        answer = ResolveApproval(
            approval_id=pending.approval_id, approve=False, reason="the client did not answer"
        )
        with scope:
            with suppress(SwarmError):
                answer = await self._client.ask(pending)
            with suppress(SwarmError):  # answered by somebody else, or its agent has ended
                await self._run.request(answer)
