"""Which turn answers an input. Pure.

A turn has the id of the input that began it. An input that came while a turn ran is read by that
turn when it becomes an item of the history, under its own id. The turn's end is then the answer to
the input. If the agent's process dies in the turn, or is ended while the turn only waits, the
agent's next turn continues it under another id.
"""

from typing import Literal

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import AnyFeed, Recorded
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed, TurnStarted
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import (
    AgentEnded,
    InputPosted,
    ItemRecorded,
    RunCompleted,
    RunIdle,
)
from swarm.mailbox.protocol.values.base import Value

TurnStatus = Literal["completed", "failed", "interrupted"]
_STOPPED = frozenset({"interrupted", "killed"})  # end states of agents
_GIVEN_UP = frozenset({"killed", "crashed"})  # no process follows


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
        self._waits_for_post = bool(input_id)  # else whatever ends the run ends the wait
        self._agent = self._turn_id = ""  # known once the input was posted
        self._has_begun = False  # a turn was begun by the input, or has read it
        self.turn: TurnResult | None = None  # set at the end of the turn

    @property
    def ends_with_run(self) -> bool:
        """False while an end of the run says nothing: the input was not posted yet."""
        return not self._waits_for_post

    def apply(self, event: AnyFeed) -> None:
        """Take the next event of the run, in order."""
        if self.turn is not None or not isinstance(event, Recorded):
            return
        record = event.record
        match record.body:
            case RunCompleted() as body if self.ends_with_run:
                self.turn = _ended_with_run(body, self._turn_id)
            case InputPosted() as body if self._is_meant(body, record.agent):
                self._waits_for_post = False
                self._agent = record.agent
                self._input_id = self._turn_id = body.input_id
            case RunIdle() as body if self._agent:
                self.turn = _left_idle(body, self._turn_id)
            case body if record.agent == self._agent:
                self._apply_agent(body)
            case _:
                pass

    def _is_meant(self, body: InputPosted, agent: str) -> bool:
        if self._input_id:
            return body.input_id == self._input_id
        return agent == ROOT_PATH and body.source == "task"

    def _apply_agent(self, body: object) -> None:
        match body:
            case ItemRecorded(item_id=item_id) if item_id == self._input_id:
                self._turn_id, self._has_begun = body.turn_id, True
            case TurnStarted(turn_id=turn_id) if self._has_begun or turn_id == self._turn_id:
                self._turn_id, self._has_begun = turn_id, True
            case TurnCompleted() | TurnFailed() | TurnAborted() if body.turn_id == self._turn_id:
                self.turn = _ended(body)
            case AgentEnded(state=state) if self._has_begun or state in _GIVEN_UP:
                self.turn = _ended_with_agent(body, self._turn_id)
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


def _ended_with_agent(body: AgentEnded, turn_id: str) -> TurnResult:
    """The agent's work ended in the middle of the turn."""
    stopped = body.state in _STOPPED
    text = body.message or f"the agent's work ended before the turn did: {body.state}"
    return TurnResult(status="interrupted" if stopped else "failed", text=text, turn_id=turn_id)


def _left_idle(body: RunIdle, turn_id: str) -> TurnResult:
    """No agent of the run works, and the turn had no end."""
    text = body.message or "the run waits for input, and the turn had no end"
    stopped = body.status == "interrupted"
    return TurnResult(status="interrupted" if stopped else "failed", text=text, turn_id=turn_id)


def _ended_with_run(body: RunCompleted, turn_id: str) -> TurnResult:
    stopped = body.status in {"interrupted", "terminated", "deadline", "budget"}
    text = body.message or "the run ended before the input was read"
    return TurnResult(status="interrupted" if stopped else "failed", text=text, turn_id=turn_id)
