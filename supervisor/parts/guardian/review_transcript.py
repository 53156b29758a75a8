"""Selects, cuts and numbers the entries of an agent's history that a reviewer sees. Pure.

The token limits are never exceeded. Tool output cannot displace the person's messages. No text
inside an entry can pass for another entry, since all its further lines are indented. What an agent
wrote is never attributed to the person. Everything shown is evidence, not instructions.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from swarm.mailbox.contents.context_markers import CONTEXT_STARTS
from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    text_of,
)
from swarm.mailbox.protocol.values.base import Value

MESSAGE_TOKENS = 2_000  # of one entry
TOOL_TOKENS = 1_000
MESSAGES_TOKENS = 10_000  # of all entries together
TOOLS_TOKENS = 10_000
MAX_OTHER_ENTRIES = 40  # entries that are not the person's
EMPTY = "<no retained transcript entries>"
EMPTY_DELTA = "<no retained transcript delta entries>"
PERSON = "person"  # author of a mail that a person sent
_INDENT = "    "
_TOKEN_BYTES = 4

Kind = Literal["user", "message", "tool"]
Source = Literal["context", "user", "mail", "model", "tool", "note", "unknown"]


class TranscriptEntry(Value):
    """One entry before it is numbered. `text` is already cut to the limit of one entry."""

    kind: Kind
    role: str
    text: str


class ChosenEntries(Value):
    """The chosen entries, rendered, in order; `omitted`: some were left out."""

    lines: tuple[str, ...] = ()
    omitted: bool = False


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter of its bytes, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // _TOKEN_BYTES)


def cut_middle(text: str, *, limit_tokens: int) -> str:
    """The text, or its head and tail around a mark that says how much is missing.

    Never longer than `limit_tokens`, except that the mark itself is never cut.
    """
    data = text.encode("utf-8", "replace")
    most = limit_tokens * _TOKEN_BYTES
    if len(data) <= most:
        return text
    omitted = -(-(len(data) - most) // _TOKEN_BYTES)
    mark = f'<truncated omitted_approx_tokens="{omitted}" />'
    room = most - len(mark)
    if room <= 0:
        return mark
    head, tail = room // 2, room - room // 2
    before = data[:head].decode("utf-8", "ignore")
    after = data[len(data) - tail :].decode("utf-8", "ignore")
    return f"{before}{mark}{after}"


def indent(text: str) -> str:
    """Indent every line after the first, whatever character ends a line."""
    return f"\n{_INDENT}".join(text.splitlines())


def make_entry(kind: Kind, role: str, text: str) -> TranscriptEntry | None:
    """An entry, cut to the limit of its kind; None for blank text."""
    if not text.strip():
        return None
    limit = TOOL_TOKENS if kind == "tool" else MESSAGE_TOKENS
    return TranscriptEntry(
        kind=kind, role=role, text=cut_middle(indent(text.strip()), limit_tokens=limit)
    )


class TranscriptReader:
    """Turns items into entries one by one; remembers the tool name of each open call."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, item: AnyItem, source: Source) -> TranscriptEntry | None:
        """The entry of one item; None if reviewers do not see such items.

        Args:
            item: From the reviewed agent's history.
            source: Where it came from, by the supervisor's own records. "unknown": the history was
                replaced as a whole, so only the item itself shows where it came from.
        """
        match item:
            case Message():
                return _message(item, source)
            case FunctionCall(call_id=call_id, name=name, arguments=text):
                self._names[call_id] = name
                return make_entry("tool", f"tool {_safe_tool_name(name)} call", text)
            case CustomToolCall(call_id=call_id, name=name, input=text):
                self._names[call_id] = name
                return make_entry("tool", f"tool {_safe_tool_name(name)} call", text)
            case FunctionCallOutput() | CustomToolCallOutput():
                name = self._names.pop(item.call_id, "")
                role = f"tool {_safe_tool_name(name)} result" if name else "tool result"
                return make_entry("tool", role, text_of(item.output))
            case _:
                return None


def _safe_tool_name(name: str) -> str:
    """A model chose the name: keep it to one harmless word."""
    return "".join(char if char.isalnum() or char in "_.-" else "?" for char in name[:64])


def _message(message: Message, source: Source) -> TranscriptEntry | None:
    text = text_of(message.content)
    if message.role == "developer" or source in ("context", "note"):
        return None
    if message.role == "assistant":
        if message.author is None:
            return make_entry("message", "assistant", text)
        if message.author == PERSON:
            return make_entry("user", "user", text)
        return make_entry("message", f"message from agent {_safe_path(message.author)}", text)
    if source == "unknown":
        parts = (text_of((part,)) for part in message.content)
        text = "\n".join(part for part in parts if not part.startswith(CONTEXT_STARTS))
    return make_entry("user", "user", text)


def _safe_path(author: str) -> str:
    return "".join(char if char.isalnum() or char in "_/-" else "?" for char in author[:200])


def render_entry(number: int, entry: TranscriptEntry) -> str:
    """`[n] role: text`."""
    return f"[{number}] {entry.role}: {entry.text}"


def choose_entries(entries: Sequence[TranscriptEntry | None], *, first: int = 1) -> ChosenEntries:
    """Choose the entries that fit the limits.

    First the person's first entry, then the person's other entries from the newest back; then all
    other entries from the newest back. An entry that does not fit is left out; an older one may
    still fit.

    Args:
        entries: In order; None stands for an entry that is no longer held.
        first: The number of the first entry.
    """
    lines = {
        index: render_entry(first + index, entry)
        for index, entry in enumerate(entries)
        if entry is not None
    }
    costs = {index: count_tokens(line) for index, line in lines.items()}
    users = [n for n in lines if _kind(entries, n) == "user"]
    others = [n for n in lines if _kind(entries, n) != "user"]
    left = {"message": MESSAGES_TOKENS, "tool": TOOLS_TOKENS}
    chosen: set[int] = set()
    for index in (*users[:1], *reversed(users[1:])):
        if costs[index] <= left["message"]:
            chosen.add(index)
            left["message"] -= costs[index]
    count = 0
    for index in reversed(others):
        pool = "tool" if _kind(entries, index) == "tool" else "message"
        if count < MAX_OTHER_ENTRIES and costs[index] <= left[pool]:
            chosen.add(index)
            left[pool] -= costs[index]
            count += 1
    kept = tuple(lines[index] for index in sorted(chosen))
    return ChosenEntries(lines=kept, omitted=len(kept) < len(entries))


def _kind(entries: Sequence[TranscriptEntry | None], index: int) -> Kind:
    entry = entries[index]
    assert entry is not None  # callers ask only for rendered entries
    return entry.kind


def person_entries_for_child(entries: Iterable[TranscriptEntry]) -> tuple[TranscriptEntry, ...]:
    """The person's first and latest messages to the root, for the review of an agent below it."""
    messages = [entry for entry in entries if entry.kind == "user"]
    picked = messages if len(messages) < 2 else [messages[0], messages[-1]]
    return tuple(
        TranscriptEntry(kind="user", role="user to /root", text=one.text) for one in picked
    )
