"""Folds an agent's journal into its context report: parts of the newest request, and their tokens.

The total is the server's count where the server counted; a part's tokens are its share of that by
size. Nothing is read again from files: they may have changed since. Pure.
"""

from collections.abc import Iterable, Sequence

from swarm.mailbox.protocol.context_sizes import HeadSizes
from swarm.mailbox.protocol.events import TokenCount, TurnStarted
from swarm.mailbox.protocol.items import AnyItem
from swarm.mailbox.protocol.records import AgentSpawned, ContextRecorded, ItemRecorded, Record
from swarm.mailbox.protocol.values.base import Value

from ...journal.replay import AgentMemory, fold_agent
from .context_parts import PartGroup, TextPart, called_tools, head_parts, item_parts, joined

_BYTES_PER_TOKEN = 4


class ContextPart(Value):
    """One part. `source` is the file, server, tool or agent that it comes from, "" for none."""

    group: PartGroup
    tokens: int
    source: str = ""
    size_bytes: int = 0
    is_sent: bool = True  # False: it came after the newest request and goes with the next


class ContextReport(Value):
    """What the newest request and its answer hold, and what waits for the next request.

    `counted`: the server counted `sent_tokens`; else they are an estimate. `head_known`: False for
    a run of a version that did not record instructions and tools.
    """

    agent: str
    model: str = ""
    provider: str = ""
    window_tokens: int = 0  # 0: unknown
    sent_tokens: int = 0
    cached_tokens: int = 0  # of the newest request, from the provider's cache
    waiting_tokens: int = 0  # estimate
    counted: bool = False
    head_known: bool = False
    parts: tuple[ContextPart, ...] = ()

    @property
    def used_tokens(self) -> int:
        return self.sent_tokens + self.waiting_tokens

    @property
    def left_tokens(self) -> int | None:
        """Tokens of the window that are free; None if the window is unknown."""
        return max(0, self.window_tokens - self.used_tokens) if self.window_tokens else None


class _Seen:
    """What the fold notes beside the history."""

    def __init__(self) -> None:
        self.count: TokenCount | None = None
        self.head: HeadSizes | None = None
        self.turn: TurnStarted | None = None
        self.spawned: AgentSpawned | None = None
        self.sent_items = 0
        self.is_replaced = False  # the history was replaced, and no model has answered since
        self.is_counted = False

    def note(self, memory: AgentMemory, record: Record) -> None:
        match record.body:
            case AgentSpawned() as body:
                self.spawned = body
            case TurnStarted() as body:
                self.turn = body
            case ItemRecorded(source="model"):
                self.is_replaced = False
            case ContextRecorded(items=items):
                self.is_replaced, self.is_counted = True, False
                self.sent_items = len(items)
            case TokenCount() as body:
                self.count, self.head = body, body.head or self.head
                self.sent_items = len(memory.items)
                self.is_counted = body.last.total_tokens > 0 and not self.is_replaced
            case _:
                pass


def fold_context(records: Iterable[Record], *, agent: str) -> ContextReport:
    """Fold all records of and about one agent, in order."""
    seen = _Seen()
    items = fold_agent(records, before=seen.note).items
    count, head, model = seen.count, seen.head, seen.turn and seen.turn.model
    cwd = "" if seen.spawned is None else seen.spawned.cwd
    told, waiting = _divided(items, seen.sent_items, head or HeadSizes(), cwd)
    total = _total(told, None if seen.is_replaced or count is None else count.context_tokens)
    sent = _shares(told, total)
    rest = tuple(_estimated(part) for part in waiting)
    return ContextReport(
        agent=agent,
        model=model.slug if model else "",
        provider=model.provider if model else "",
        window_tokens=count.context_window if count else 0,
        sent_tokens=total,
        cached_tokens=count.last.cached_input_tokens if count else 0,
        waiting_tokens=sum(part.tokens for part in rest),
        counted=seen.is_counted,
        head_known=head is not None,
        parts=(*sent, *rest),
    )


def _divided(
    items: Sequence[AnyItem], sent: int, head: HeadSizes, cwd: str
) -> tuple[tuple[TextPart, ...], tuple[TextPart, ...]]:
    known = head_parts(head) if head != HeadSizes() else ()
    tools = called_tools(items)  # an output may be sent after its call
    told = item_parts(items[:sent], head, tools=tools, cwd=cwd)
    waiting = item_parts(items[sent:], head, tools=tools, cwd=cwd)
    return joined((*known, *told)), joined(waiting)


def _total(parts: Sequence[TextPart], counted: int | None) -> int:
    return counted or sum(_estimated(part).tokens for part in parts)


def _estimated(part: TextPart) -> ContextPart:
    return ContextPart(
        group=part.group,
        source=part.source,
        size_bytes=part.size_bytes,
        tokens=-(-part.size_bytes // _BYTES_PER_TOKEN),
        is_sent=False,
    )


def _shares(parts: Sequence[TextPart], total: int) -> tuple[ContextPart, ...]:
    """Each part's share of the total by its size; the shares add up to the total."""
    size_bytes, given, passed = sum(part.size_bytes for part in parts), 0, 0
    shares: list[ContextPart] = []
    for part in parts:
        passed += part.size_bytes
        upto = total * passed // size_bytes if size_bytes else 0
        shares.append(
            ContextPart(
                group=part.group,
                source=part.source,
                size_bytes=part.size_bytes,
                tokens=upto - given,
            )
        )
        given = upto
    return tuple(shares)
