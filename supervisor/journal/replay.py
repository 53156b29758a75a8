"""Folds records into the state that a resumed run and a restarted agent need. Pure.

`fold_run` reads the supervisor's own records (few, even for ten thousand agents); `fold_agent`
reads one agent's file and is called only for an agent that is started again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.items import (
    AnyItem,
    AnyOutput,
    Message,
    TokenUsage,
    encode_item,
    text_of,
)
from swarm.mailbox.protocol.ops import Mail, UndoCompaction
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ContextRecorded,
    FanOutItemEnded,
    FanOutPlanned,
    InputPosted,
    ItemRecorded,
    MailHandled,
    MailPosted,
    ProviderChosen,
    Record,
    RunCompleted,
    RunIdle,
    RunStarted,
    SettingsChanged,
)
from swarm.mailbox.protocol.sampling import chain_digest
from swarm.mailbox.protocol.settings import AgentSettings


class AgentPast(msgspec.Struct):
    """One agent, from the run's own records."""

    spawned: AgentSpawned
    ended: AgentEnded | None = None
    ended_seq: int = 0
    settings: AgentSettings | None = None  # what a person changed, in any part of the run
    usd: float | None = None  # what it has paid, over all its processes

    @property
    def is_unfinished(self) -> bool:
        """True if its work has no end, or only the one that the run's end caused."""
        return self.ended is None or self.ended.cut_off


class RunPast(msgspec.Struct):
    """A run, from its own records."""

    started: RunStarted | None = None
    provider: ProviderChosen | None = None
    agents: dict[str, AgentPast] = {}  # path → its last start
    plan: FanOutPlanned | None = None
    fan_ended: dict[int, FanOutItemEnded] = {}  # index → its last end
    completed: RunCompleted | None = None
    usd: float | None = None
    idle_seq: int = 0  # of the last record that it waits for input
    starts: int = 0  # how often the run was started or resumed
    started_ts: float = 0.0
    last_seq: int = 0
    own_bytes: int = 0  # of the run's own file, before this part of the run
    bad_lines: tuple[str, ...] = ()  # its unreadable lines, in words

    def take(self, record: Record) -> None:
        """The next record of the run's own file. A completion before a resume is forgotten."""
        self.last_seq = max(self.last_seq, record.seq)
        match record.body:
            case RunStarted() as body:
                self.started, self.completed = self.started or body, None
                self.started_ts = self.started_ts or record.ts
                self.starts += 1
            case ProviderChosen() as body:
                self.provider = body
            case AgentSpawned() as body:
                before = self.agents.get(body.path)
                settings, usd = (None, None) if before is None else (before.settings, before.usd)
                self.agents[body.path] = AgentPast(spawned=body, settings=settings, usd=usd)
            case SettingsChanged() as body if record.agent in self.agents:
                self.agents[record.agent].settings = body.settings
            case AgentEnded() as body if record.agent in self.agents:
                self.agents[record.agent].ended = body
                self.agents[record.agent].ended_seq = record.seq
            case FanOutPlanned() as body:
                self.plan = body
            case FanOutItemEnded() as body:
                self.fan_ended[body.index] = body
            case ResponseBilled(usd=float() as usd):
                self.usd = (self.usd or 0.0) + usd
                if (payer := self.agents.get(record.agent)) is not None:
                    payer.usd = (payer.usd or 0.0) + usd
            case RunIdle():
                self.idle_seq = record.seq
            case RunCompleted() as body:
                self.completed = body
            case _:
                pass  # agents' own records are folded by fold_agent


def fold_run(records: Iterable[Record]) -> RunPast:
    """Fold the supervisor's own records."""
    past = RunPast()
    for record in records:
        past.take(record)
    return past


class AgentMemory(msgspec.Struct):
    """What an agent's file says: enough to start the agent again."""

    items: list[AnyItem] = []
    usage: TokenUsage = TokenUsage()
    open_turn: str | None = None  # a turn that started and did not end
    output_schema: bytes | None = None  # the JSON schema of its last turn's answer
    open_calls: dict[str, CallBegan] = {}  # begun and not ended, in order
    ended_calls: dict[str, CallEnded] = {}  # ended, and without an output in the history
    inputs: dict[str, InputPosted] = {}  # sent and not yet in the history
    mails: dict[str, Mail] = {}  # likewise
    last_message: str | None = None
    last_end: TurnCompleted | TurnFailed | TurnAborted | None = None  # None: rolled back, or none
    last_end_seq: int = 0  # of that end, or of its rollback


def fold_agent(
    records: Iterable[Record], *, before: Callable[[AgentMemory, Record], None] | None = None
) -> AgentMemory:
    """Fold one agent's file. `before` gets each record with the memory that it will change.

    An input counts as taken up when its turn began (a turn's id is the id of the input that began
    it) or when an item with its id is in the history.
    """
    memory = AgentMemory()
    for record in records:
        if before is not None:
            before(memory, record)
        _fold_one(memory, record)
        _note_end(memory, record)
    return memory


def interrupted_end(call: CallBegan) -> CallEnded:
    """The end of a call whose process died: the model is told; the call never runs again."""
    return CallEnded(
        turn_id=call.turn_id, call_id=call.call_id, tool=call.tool, status="interrupted"
    )


def last_answer(items: Sequence[AnyItem]) -> str | None:
    """The model's own last message, if any."""
    for item in reversed(items):
        if isinstance(item, Message) and item.role == "assistant" and item.author is None:
            return text_of(item.content)
    return None


def _fold_one(memory: AgentMemory, record: Record) -> None:  # noqa: C901, PLR0915 - one case a kind
    match record.body:
        case ItemRecorded() as body:
            memory.items.append(body.item)
            if isinstance(body.item, AnyOutput):
                memory.ended_calls.pop(body.item.call_id, None)
            if (posted := memory.inputs.pop(body.item_id, None)) is not None:
                memory.output_schema = posted.output_schema or memory.output_schema
            memory.mails.pop(body.item_id, None)
        case ContextRecorded() as body:
            memory.items = list(body.items)
            if body.rolled_back:
                _close_turn(memory)
                memory.last_message = last_answer(body.items)
        case TurnStarted() as body:
            memory.open_turn = body.turn_id
            if (posted := memory.inputs.get(body.turn_id)) is not None and posted.parts:
                memory.output_schema = posted.output_schema
            _drop_continue_inputs(memory)
        case TurnCompleted() as body:
            _close_turn(memory)
            memory.last_message = body.last_message
            _drop_continue_inputs(memory)
        case TurnFailed() | TurnAborted():
            _close_turn(memory)
            _drop_continue_inputs(memory)
        case CallBegan() as body:
            memory.open_calls[body.call_id] = body
            memory.ended_calls.pop(body.call_id, None)
        case CallEnded() as body:
            memory.open_calls.pop(body.call_id, None)
            if body.status != "interrupted":
                memory.ended_calls[body.call_id] = body
        case TokenCount() as body:
            memory.usage = body.total
        case InputPosted() as body:
            memory.inputs[body.input_id] = body
        case MailPosted() as body:
            memory.mails[body.mail.mail_id] = body.mail
        case MailHandled() as body:
            memory.mails.pop(body.mail_id, None)
        case _:
            pass


def _note_end(memory: AgentMemory, record: Record) -> None:
    match record.body:
        case TurnCompleted() | TurnFailed() | TurnAborted() as body:
            memory.last_end, memory.last_end_seq = body, record.seq
        case ContextRecorded(rolled_back=turns) if turns:
            memory.last_end, memory.last_end_seq = None, record.seq
        case _:
            pass


def _close_turn(memory: AgentMemory) -> None:
    memory.open_turn = None
    memory.open_calls.clear()
    memory.ended_calls.clear()


def _drop_continue_inputs(memory: AgentMemory) -> None:
    """Drop inputs that only mean "continue": any turn satisfies them, and no item shows them."""
    memory.inputs = {name: one for name, one in memory.inputs.items() if one.parts}


class _CompactionMade(NamedTuple):
    compaction_id: str
    before: tuple[AnyItem, ...]
    after: tuple[AnyItem, ...]


def find_compaction_undo(records: Iterable[Record]) -> UndoCompaction | None:
    """The op that undoes the latest compaction; None if there is none, or it cannot be undone.

    It can be undone only if the history still begins with the items of that compaction: a rollback
    or a removed image may have replaced them since.
    """
    made: list[_CompactionMade] = []

    def note(memory: AgentMemory, record: Record) -> None:
        match record.body:
            case ContextRecorded(shortened=None, undoes=undone) if undone:
                while made and made.pop().compaction_id != undone:
                    pass
            case ContextRecorded(shortened=done) as body if done is not None:
                made.append(_CompactionMade(done.compaction_id, tuple(memory.items), body.items))
            case _:
                pass

    items = tuple(fold_agent(records, before=note).items)
    if not made or items[: len(made[-1].after)] != made[-1].after:
        return None
    last, digest = made[-1], b""
    for item in last.after:
        digest = chain_digest(digest, encode_item(item))
    return UndoCompaction(
        compaction_id=last.compaction_id,
        base_count=len(last.after),
        base_digest=digest,
        items=tuple(msgspec.Raw(encode_item(item)) for item in last.before),
    )
