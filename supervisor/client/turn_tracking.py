"""Which turn answers an input. Pure.

An input is read by a turn when it becomes an item of the history, under its own id. That may be a
turn that was already running. The turn's end is then the answer to the input.
"""

from typing import Literal

from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.control import AnyFeed, Recorded
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import AgentEnded, InputPosted, ItemRecorded, RunCompleted

TurnStatus = Literal["completed", "failed", "interrupted"]


class TurnResult(Value):
    """How the turn that read an input has ended."""

    status: TurnStatus
    text: str = ""  # the agent's last message, or why there is none
    usage: TokenUsage = TokenUsage()  # of this turn
    turn_id: str = ""  # "": the run ended before a turn read the input
    truncated: bool = False  # the model's output limit cut the answer
    refused: bool = False  # it needed an approval that nobody could give
    out_of_budget: bool = False


class TurnTracker:
    """Follows one input through a run's events; without an id, the run's own first one."""

    def __init__(self, input_id: str = "") -> None:
        self._input_id = input_id
        self._agent = self._turn_id = ""  # known once the input was posted, and read
        self.turn: TurnResult | None = None  # set at the end of the turn

    def apply(self, event: AnyFeed) -> None:
        """Take the next event of the run, in order."""
        if self.turn is not None or not isinstance(event, Recorded):
            return
        record = event.record
        if isinstance(record.body, RunCompleted):
            self.turn = _ended_with_run(record.body, self._turn_id)
        elif isinstance(record.body, InputPosted) and self._is_meant(record.body, record.agent):
            self._agent, self._input_id = record.agent, record.body.input_id
        elif record.agent == self._agent:
            self._apply_agent(record.body)

    def _is_meant(self, body: InputPosted, agent: str) -> bool:
        if self._input_id:
            return body.input_id == self._input_id
        return agent == ROOT_PATH and body.source == "task"

    def _apply_agent(self, body: object) -> None:
        match body:
            case ItemRecorded(source="user", item_id=item_id) if item_id == self._input_id:
                self._turn_id = body.turn_id
            case TurnCompleted() | TurnFailed() | TurnAborted() if body.turn_id == self._turn_id:
                self.turn = _ended(body)
            case AgentEnded(state="killed", message=why):
                self.turn = TurnResult(status="interrupted", text=why, turn_id=self._turn_id)
            case _:
                pass


def _ended(body: TurnCompleted | TurnFailed | TurnAborted) -> TurnResult:
    match body:
        case TurnCompleted():
            return TurnResult(
                status="completed", text=body.last_message or "", usage=body.usage,
                turn_id=body.turn_id, truncated=body.truncated, refused=body.refused,
                out_of_budget=body.out_of_budget,
            )  # fmt: skip
        case TurnFailed():
            return TurnResult(
                status="failed", text=body.message, usage=body.usage, turn_id=body.turn_id
            )
        case TurnAborted():
            return TurnResult(
                status="interrupted", text=f"the turn was ended early: {body.reason}",
                usage=body.usage, turn_id=body.turn_id,
            )  # fmt: skip


def _ended_with_run(body: RunCompleted, turn_id: str) -> TurnResult:
    stopped = body.status in {"interrupted", "terminated", "deadline", "budget"}
    text = body.message or "the run ended before the input was read"
    return TurnResult(status="interrupted" if stopped else "failed", text=text, turn_id=turn_id)
