"""One reviewing process: asked one thing at a time, until it is interrupted or ended.

Rule guarded: an answer is believed only if it ends the very turn that this question began; a
process that ends, a turn that fails or is cut off is no answer.
"""

import math
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.events import TokenCount, TurnCompleted, TurnFailed, TurnStarted
from swarm.mailbox.protocol.items import AnyItem, TokenUsage
from swarm.mailbox.protocol.ops import Notice, TextInput, UserInput
from swarm.mailbox.protocol.records import ContextRecorded, Record
from swarm.mailbox.protocol.sampling import ModelInfo

from ..agents import AgentPlan, LiveAgent
from ..control import Control
from ..journal.reading import read_records
from ..journal.replay import AgentMemory, fold_agent
from ..running import Running
from .assess import SCHEMA
from .history import Tail
from .policy import LIMITS, Seat, brief_for
from .prompt import Cursor

DRAIN_S = 5.0  # for an interrupted turn to end
_END_GRACE_S = 1.0
_TRANSIENT = frozenset(
    {"overloaded", "connection_failed", "stream_disconnected", "idle_timeout", "other"}
)


class Trouble(Exception):
    """No answer came. `again`: the same process may be asked once more."""

    def __init__(self, why: str, *, again: bool = False) -> None:
        super().__init__(why)
        self.again = again


class Bill(NamedTuple):
    """What was used since it was last asked; `usd` None: the price is not known."""

    usage: TokenUsage = TokenUsage()
    usd: float | None = None


class Session:
    """One process with the reviewer's role, and how far it has read whose history.

    `committed` is the turn of its latest completed review: forks begin from there.
    """

    def __init__(self, running: Running, control: Control, *, seat: Seat, path: str) -> None:
        self._run, self._control = running, control
        self.seat = seat
        self.cursors: dict[str, Cursor] = {}  # reviewed agent → how far it was shown
        self.reviews = 0
        self.committed = ""
        self.busy = False
        self.context_share = 0.0  # of the window, at its latest response
        self._last_turn = ""
        self._model: ModelInfo | None = None
        plan = AgentPlan(
            path=path,
            agent_id=running.chances.new_id(),
            role=brief_for(seat),
            limits=LIMITS,
            cwd=seat.cwd,
            model=seat.model,
            effort=seat.effort,
            slotless=True,
        )
        self._life = LiveAgent(plan, epoch=1)
        self._tail = Tail(running.places.journal / f"{plan.agent_id}.jsonl")

    @property
    def path(self) -> str:
        return self._life.path

    @property
    def is_alive(self) -> bool:
        return not self._life.gone.is_set() and self._life.wanted_end is None

    async def start(self, history: tuple[AnyItem, ...] = ()) -> None:
        """Start the process. Raises SpawnError; cancelled, nothing of it is left."""
        memory = AgentMemory(items=list(history)) if history else None
        if memory is not None:
            self._run.note(
                ContextRecorded(turn_id="", items=history),
                agent=self.path,
                file=self._life.plan.agent_id,
            )
        try:
            await self._control.enliven(self._life, memory)
        except BaseException:
            self._life.gone.set()
            raise

    async def ask(self, parts: tuple[str, ...], *, note: str = "") -> str:
        """Put one question and return the last message of the turn. Raises Trouble.

        Args:
            parts: The user's message; none to let a turn that failed go on.
            note: A developer message to stand before it.
        """
        life = self._life
        if note:
            try:
                await self._run.send(life, Notice(notice_id=self._run.chances.new_id(), text=note))
            except PeerGone:
                raise Trouble("the reviewer's process has ended") from None
        turn_id = self._last_turn = self._run.chances.new_id()
        words = UserInput(
            input_id=turn_id,
            parts=tuple(TextInput(text=text) for text in parts),
            output_schema=SCHEMA,
        )
        await self._control.say(life, words)
        if not life.gone.is_set():
            await life.done.wait()
        end = life.last_turn_end
        if life.gone.is_set() or end is None or end.turn_id != turn_id:
            raise Trouble("the reviewer's process ended before it had answered")
        match end:
            case TurnCompleted(out_of_budget=True) | TurnFailed(kind="refused_budget"):
                raise Trouble("the budget of the run is used up")
            case TurnCompleted(last_message=text):
                return text or ""
            case TurnFailed(kind=kind, message=message):
                raise Trouble(f"{kind}: {message}", again=kind in _TRANSIENT)
            case _:
                raise Trouble("the review was interrupted")

    def commit(self, agent: str, cursor: Cursor) -> None:
        """The review is complete: what it was shown need not be shown again."""
        self.cursors[agent] = cursor
        self.reviews += 1
        self.committed = self._last_turn

    async def read_bill(self) -> Bill:
        """What its journal says was used since the last call; also how full its window is."""
        await self._run.journal.settle()
        try:
            records = await trio.to_thread.run_sync(self._tail.read_more)
        except (OSError, msgspec.DecodeError):
            return Bill()
        usage, usd = TokenUsage(), 0.0
        for record in records:
            match record.body:
                case TurnStarted(model=model):
                    self._model = model
                case TokenCount() as count:
                    usage = usage.plus(count.last)
                    usd += price_of(self._model, count.last)
                    self.context_share = count.context_tokens / (count.context_window or math.inf)
                case _:
                    pass
        return Bill(usage, None if math.isnan(usd) else round(usd, 9))

    async def committed_items(self) -> tuple[AnyItem, ...]:
        """Its history at the end of its latest completed review; () if there is none."""
        if not self.committed:
            return ()
        places, file, turn_id = self._run.places, self._life.plan.agent_id, self.committed
        await self._run.journal.settle()
        return await trio.to_thread.run_sync(
            lambda: items_at_end_of(list(read_records(places, file=file)), turn_id)
        )

    async def halt(self) -> bool:
        """Interrupt what it does; True if it came to rest, and can be asked again, in time."""
        life = self._life
        with trio.move_on_after(DRAIN_S):
            await self._control.interrupt([life], "the review is over")
            await life.done.wait()
            return self.is_alive
        return False

    async def end(self) -> None:
        """End the process; bounded."""
        if self._life.child is not None:
            await self._control.end(self._life, grace_s=_END_GRACE_S)


def items_at_end_of(records: list[Record], turn_id: str) -> tuple[AnyItem, ...]:
    """The history when this turn had been completed; () if it never was. Pure."""
    for index, record in enumerate(records):
        if isinstance(record.body, TurnCompleted) and record.body.turn_id == turn_id:
            return tuple(fold_agent(records[: index + 1]).items)
    return ()


def price_of(model: ModelInfo | None, usage: TokenUsage) -> float:
    """Dollars of one response, as the gateway counts them; not a number where unknown. Pure."""
    if model is None:
        return math.nan
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    fresh = usage.input_tokens - cached
    price_in, price_out = model.input_usd_per_million, model.output_usd_per_million
    if (price_in is None and usage.input_tokens) or (price_out is None and usage.output_tokens):
        return math.nan
    price_cached = model.cached_usd_per_million
    price_cached = price_in if price_cached is None else price_cached
    total = fresh * (price_in or 0.0) + cached * (price_cached or 0.0)
    return (total + usage.output_tokens * (price_out or 0.0)) / 1e6
