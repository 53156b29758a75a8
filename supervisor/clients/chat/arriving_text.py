"""The text of one agent that is arriving now: of its answer, or of its running command. No I/O."""

from swarm.mailbox.protocol.control import AnyFeed, Recorded
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    OutputArrived,
    TextArrived,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from swarm.mailbox.protocol.records import ItemRecorded

from ...base.safe_text import clean_block

_TAIL_CHARS = 8_192


class ArrivingText:
    """Follows one agent's events; the records that end a stream also end it here."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._answer = self._output = ""

    def apply(self, event: AnyFeed) -> None:
        """One event of the feed; those of other agents are skipped."""
        if isinstance(event, Recorded):
            if event.record.agent == self.path:
                self._end(event.record.body)
        elif event.agent == self.path:
            match event.event:
                case TextArrived(delta=delta):
                    self._answer = (self._answer + delta)[-_TAIL_CHARS:]
                case OutputArrived(delta=delta):
                    self._output = (self._output + delta)[-_TAIL_CHARS:]
                case _:
                    pass

    def _end(self, body: object) -> None:
        match body:
            case ItemRecorded():
                self._answer = ""
            case CallBegan() | CallEnded():
                self._output = ""
            case TurnStarted() | TurnCompleted() | TurnFailed() | TurnAborted():
                self._answer = self._output = ""
            case _:
                pass

    def lines(self, most: int) -> list[str]:
        """The last lines of the answer, else of the command's output; cleaned."""
        text = clean_block(self._answer or self._output).strip("\n")
        return text.split("\n")[-most:] if text.strip() and most > 0 else []

    @property
    def is_answer(self) -> bool:
        """True if the lines are the model's, False if they are a command's."""
        return bool(self._answer)
