"""One run as the conversation sees it: its folded state, its transcript, and what arrives now.

It follows the run's events until the run has ended. Nothing here waits for the screen.
"""

import asyncio
from collections.abc import Callable

from rich.text import Text

from swarm.mailbox.base.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import AgentView, Recorded, RunView
from swarm.mailbox.protocol.records import InputPosted, Record, RunCompleted, RunStarted

from ...views.run_state import RunState
from ..client.live_run import LiveRun
from ..client.run_events import open_events
from ..console.theme import DIM
from .arriving_text import ArrivingText
from .chat_transcript import ChatTranscript, TranscriptPart

_MOST_PAST_PARTS, _PAST_INPUTS = 120, 3  # of the past, printed when a run is opened


class AttachedRun:
    """Made for one `LiveRun`; `follow` runs once.

    Args:
        run: The run; alive or ended.
        print_parts: Takes what is to be printed, in order.
        changed: Called after each event; cheap.
    """

    def __init__(
        self,
        run: LiveRun,
        *,
        print_parts: Callable[[list[TranscriptPart]], None],
        changed: Callable[[], None],
    ) -> None:
        self.run = run
        self.arriving = ArrivingText(ROOT_PATH)
        self.completed: RunCompleted | None = None
        self.has_ended = False
        self._state = RunState()
        self._transcript = ChatTranscript()
        self._print, self._changed = print_parts, changed
        self._is_past = True
        self._past_until: int | None = None  # number of the last record of the past; None: of all
        self._past: list[TranscriptPart] = []
        self._past_inputs: list[int] = []  # where in `_past` a person's words begin

    @property
    def short(self) -> str:
        """The run's short id."""
        return short_id(self.run.run_id)

    def view(self) -> RunView:
        """The whole run as it is now."""
        return self._state.view()

    def agent(self, path: str) -> AgentView | None:
        """One agent; None if the run has none of this path."""
        return self._state.agent(path)

    def select(self, path: str) -> None:
        """From now on keep the arriving text of this agent."""
        if path != self.arriving.path:
            self.arriving = ArrivingText(path)

    def lose(self) -> None:
        """The run cannot be read any more: for this client it has ended."""
        self.has_ended = True

    async def follow(self, *, shown_seq: int = 0) -> None:
        """Fold and print until the run ends. Records up to `shown_seq` were printed before.

        Raises SwarmError if the run cannot be read.
        """
        is_alive = self.run.is_alive
        view = await self.run.view() if is_alive else RunView()
        self._state = RunState(view)
        self._past_until = view.seq if is_alive else None
        self._is_past = True
        async with open_events(self.run.paths, after=0) as events:
            while (event := await events.receive()) is not None:
                self._state.apply(event)
                self.arriving.apply(event)
                if isinstance(event, Recorded):
                    self._add(event.record, shown_seq=shown_seq)
                self._changed()
                await asyncio.sleep(0)  # a long past must not hold up the keys
        self._end_past()
        self.has_ended = True
        self._changed()

    def _add(self, record: Record, *, shown_seq: int) -> None:
        parts = self._transcript.add(record)
        if isinstance(record.body, RunStarted):
            self.completed = None  # a resumed run has several ends
        elif isinstance(record.body, RunCompleted):
            self.completed = record.body
        if not self._is_past:
            self._print(parts)
            return
        if isinstance(record.body, InputPosted) and record.agent == ROOT_PATH:
            self._past_inputs.append(len(self._past))
        self._past += parts if record.seq > shown_seq else []
        if self._past_until is not None and record.seq >= self._past_until:
            self._end_past()

    def _end_past(self) -> None:
        """Print the last turns of what was said before; the rest can be read elsewhere."""
        self._is_past = False
        parts, inputs = self._past, self._past_inputs
        self._past, self._past_inputs = [], []
        begin = inputs[-_PAST_INPUTS] if len(inputs) >= _PAST_INPUTS else 0
        begin = max(begin, len(parts) - _MOST_PAST_PARTS)
        self._print(([_earlier(self.short)] if begin else []) + parts[begin:])


def _earlier(short: str) -> TranscriptPart:
    return Text(f"— earlier turns: swarm show {short} root —", style=DIM)
