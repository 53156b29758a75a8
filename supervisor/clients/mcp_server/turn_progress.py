"""Folds a run's events into its tree and the end of the turn that a tool call waits for. Pure."""

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.control import AnyFeed, Recorded, RunView
from swarm.mailbox.protocol.records import InputPosted, RunCompleted, RunStarted
from swarm.mailbox.protocol.values.base import Value

from ...views.run_state import RunState
from ..client import TurnResult
from ..client.turn_tracking import TurnTracker

_VANISHED = TurnResult(
    status="failed", text="the run's supervisor was killed; swarm_send goes on with the run"
)


class AwaitedTurn(Value):
    """Which turn: of the input with this id, else of the root's newest one behind a record."""

    input_id: str = ""
    after_seq: int = 0


class TurnProgress:
    """Give it every event from the run's beginning on.

    Args:
        awaited: The turn whose end is wanted.
        newest: The last record that the journal had when reading began: nothing is decided before.
    """

    def __init__(self, awaited: AwaitedTurn, newest: int) -> None:
        self._awaited, self._newest = awaited, newest
        self._state = RunState()
        self._tracker: TurnTracker | None = None
        self._completed: RunCompleted | None = None
        self._has_ended = False

    def apply(self, event: AnyFeed) -> None:
        self._state.apply(event)
        if not isinstance(event, Recorded):
            return
        record = event.record
        match record.body:
            case InputPosted(input_id=input_id) if self._is_awaited(
                input_id, record.agent, record.seq
            ):
                self._tracker = TurnTracker(input_id)
            case RunStarted():
                self._completed = None  # a resumed run has several ends
            case RunCompleted() as completed:
                self._completed = completed
            case _:
                pass
        if self._tracker is not None:
            self._tracker.apply(event)

    def _is_awaited(self, input_id: str, agent: str, seq: int) -> bool:
        if self._awaited.input_id:
            return input_id == self._awaited.input_id
        return agent == ROOT_PATH and seq > self._awaited.after_seq

    def end(self) -> None:
        """The run has ended; nothing more will come."""
        self._has_ended = True

    @property
    def has_begun(self) -> bool:
        """True once the input of the awaited turn was posted."""
        return self._tracker is not None

    @property
    def is_current(self) -> bool:
        """False while the past is read."""
        return self._has_ended or self._state.seq >= self._newest

    @property
    def turn(self) -> TurnResult | None:
        """How the turn ended; None while it runs, or while the past is read."""
        if not self.is_current:
            return None
        if self._tracker is not None and self._tracker.turn is not None:
            return self._tracker.turn
        if not self._has_ended:
            return None
        if self._completed is None:
            return _VANISHED
        text = self._completed.message or "the run ended before the turn did"
        return TurnResult(status="failed", text=text)

    @property
    def approvals(self) -> tuple[PendingApproval, ...]:
        """What waits for a person, oldest first."""
        if not self.is_current or self._has_ended:
            return ()
        waiting = self._state.view().approvals
        return tuple(one for one in waiting if one.reviewer == "person" and not one.denied)

    def view(self) -> RunView:
        return self._state.view()
