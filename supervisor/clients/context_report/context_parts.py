"""Divides a conversation into parts: who or what each text in it comes from. Pure.

An item belongs to a part by the markers that the harness writes and by its role and author; no text
is interpreted beyond that.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from swarm.mailbox.contents.context_markers import (
    ABORTED_START,
    ENVIRONMENT_START,
    GUIDANCE_START,
    MEMORIES_START,
    OVERVIEW_START,
    PERMISSIONS_START,
    SKILL_START,
    SKILLS_START,
    SPAWNED_START,
    STATE_START,
    SUMMARY_START,
    TEAM_START,
    unlisted_count,
)
from swarm.mailbox.protocol.context_sizes import HeadSizes
from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyItem,
    Compaction,
    ContentPart,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    Message,
    ProviderItem,
    Reasoning,
)
from swarm.mailbox.protocol.values.base import Value

PartGroup = Literal[
    "instructions", "tools", "mcp_tools", "permissions", "team", "role", "skills", "agents_md",
    "environment", "memories", "person", "agents", "answers", "calls", "outputs", "skill_texts",
    "summary", "notes",
]  # fmt: skip
_IMAGE_BYTES = 7_373  # what an image costs, in bytes of text; as the agents estimate it
_SEALED_BYTES = 650  # the envelope of encrypted text
_MCP_TOOL = re.compile(r"mcp__(?P<server>.+?)__")
_SKILL_LINE = re.compile(r"- .* \(file: (?P<path>[^()]*)\)\Z")
_SKILL_PATH = re.compile(r"<path>(?P<path>.*)</path>")
_USER_STARTS: tuple[tuple[str, PartGroup], ...] = (
    (ENVIRONMENT_START, "environment"),
    (OVERVIEW_START, "environment"),
    (SPAWNED_START, "environment"),
    (SUMMARY_START, "summary"),
    (STATE_START, "summary"),
    (ABORTED_START, "notes"),
)
_DEVELOPER_STARTS: tuple[tuple[str, PartGroup], ...] = (
    (PERMISSIONS_START, "permissions"),
    (TEAM_START, "team"),
    (MEMORIES_START, "memories"),
)


class TextPart(Value):
    """Bytes of one kind from one place. `source`: a file, a server, a tool, an agent; or ""."""

    group: PartGroup
    source: str = ""
    size_bytes: int = 0


def head_parts(head: HeadSizes) -> Iterator[TextPart]:
    """Instructions and tools of a request; the tools of one MCP server are one part."""
    origin = f"role {head.instructions_from}" if head.instructions_from else "built in"
    yield TextPart(group="instructions", source=origin, size_bytes=head.instructions_bytes)
    for tool in head.tools:
        if (found := _MCP_TOOL.match(tool.name)) is not None:
            yield TextPart(group="mcp_tools", source=found["server"], size_bytes=tool.size_bytes)
        else:
            yield TextPart(group="tools", source=tool.name, size_bytes=tool.size_bytes)
    if head.schema_bytes:
        yield TextPart(group="role", source="schema of the answer", size_bytes=head.schema_bytes)


def called_tools(items: Iterable[AnyItem]) -> dict[str, str]:
    """The tool of each call, by the call's id."""
    return {item.call_id: item.name for item in items if isinstance(item, AnyCall)}


def item_parts(
    items: Sequence[AnyItem], head: HeadSizes, *, tools: Mapping[str, str], cwd: str
) -> Iterator[TextPart]:
    """The parts of a history. `cwd`: where the agent works; `tools`: as `called_tools` finds."""
    newest = _newest_guidance(items, cwd)
    for number, item in enumerate(items):
        match item:
            case Message(role="assistant", author=str(author)):
                yield TextPart(group="agents", source=author, size_bytes=_size(item.content))
            case Message(role="assistant"):
                yield TextPart(group="answers", source="text", size_bytes=_size(item.content))
            case Message(role="developer"):
                yield from _developer_parts(item.content, is_first=number == 0)
            case Message():
                yield from _user_parts(item.content, head, is_newest=number == newest, cwd=cwd)
            case Reasoning() | Compaction() | ProviderItem():
                yield _sealed_part(item)
            case FunctionCall(arguments=text) | CustomToolCall(input=text):
                size = len(item.name.encode()) + len(text.encode())
                yield TextPart(group="calls", source=item.name, size_bytes=size)
            case FunctionCallOutput(output=output) | CustomToolCallOutput(output=output):
                tool = tools.get(item.call_id, "")
                yield TextPart(group="outputs", source=tool, size_bytes=_size(output))


def joined(parts: Iterable[TextPart]) -> tuple[TextPart, ...]:
    """One part for each group and source, in order of their first occurrence."""
    sizes: dict[tuple[PartGroup, str], int] = {}
    for part in parts:
        key = part.group, part.source
        sizes[key] = sizes.get(key, 0) + part.size_bytes
    return tuple(
        TextPart(group=group, source=source, size_bytes=size)
        for (group, source), size in sizes.items()
    )


def _marked(
    text: str, starts: Iterable[tuple[str, PartGroup]], *, otherwise: PartGroup
) -> PartGroup:
    """The group whose marker the text begins with."""
    for start, group in starts:
        if text.startswith(start):
            return group
    return otherwise


def _sealed_part(item: Reasoning | Compaction | ProviderItem) -> TextPart:
    match item:
        case Compaction(encrypted_content=sealed):
            return TextPart(group="summary", source="sealed", size_bytes=_opened_bytes(sealed))
        case ProviderItem(kind=kind, json=text):
            return TextPart(group="outputs", source=kind, size_bytes=len(text.encode()))
        case Reasoning(encrypted_content=str(sealed)):
            return TextPart(group="answers", source="reasoning", size_bytes=_opened_bytes(sealed))
        case Reasoning():
            size = sum(len(text.encode()) for text in (*item.summary, *item.content))
            return TextPart(group="answers", source="reasoning", size_bytes=size)


def _opened_bytes(sealed: str) -> int:
    return max(0, len(sealed) * 3 // 4 - _SEALED_BYTES)


def _developer_parts(content: tuple[ContentPart, ...], *, is_first: bool) -> Iterator[TextPart]:
    """Of the first message, what carries no marker is the role's own words."""
    for part in content:
        text = "" if isinstance(part, InputImage) else part.text
        if text.startswith(SKILLS_START):
            yield from _skill_list_parts(text)
            continue
        rest: PartGroup = "role" if is_first or len(content) > 1 else "notes"
        group = _marked(text, _DEVELOPER_STARTS, otherwise=rest)
        yield TextPart(group=group, size_bytes=_size((part,)))


def _skill_list_parts(text: str) -> Iterator[TextPart]:
    for line in text.split("\n"):
        found = _SKILL_LINE.match(line)
        path = found["path"] if found is not None else line if unlisted_count(line) else ""
        yield TextPart(group="skills", source=path, size_bytes=len(line.encode()) + 1)


def _user_parts(
    content: tuple[ContentPart, ...], head: HeadSizes, *, is_newest: bool, cwd: str
) -> Iterator[TextPart]:
    for part in content:
        text, size = "" if isinstance(part, InputImage) else part.text, _size((part,))
        if text.startswith(GUIDANCE_START):
            folder = text.partition("\n")[0].removeprefix(GUIDANCE_START)
            if is_newest and folder == cwd and head.guidance_files:
                yield from _guidance_parts(head, size)
            else:
                told = f"{folder} (told before)" if folder == cwd else folder
                yield TextPart(group="agents_md", source=told, size_bytes=size)
        elif text.startswith(SKILL_START):
            found = _SKILL_PATH.search(text, 0, 4_096)
            path = "" if found is None else found["path"]
            yield TextPart(group="skill_texts", source=path, size_bytes=size)
        else:
            group = _marked(text, _USER_STARTS, otherwise="person")
            yield TextPart(group=group, size_bytes=size)


def _guidance_parts(head: HeadSizes, size_bytes: int) -> Iterator[TextPart]:
    """The text by its files; what the harness writes around them has no file."""
    files = sum(one.size_bytes for one in head.guidance_files)
    for one in head.guidance_files:
        yield TextPart(group="agents_md", source=one.name, size_bytes=one.size_bytes)
    if size_bytes > files:
        yield TextPart(group="agents_md", size_bytes=size_bytes - files)


def _newest_guidance(items: Sequence[AnyItem], cwd: str) -> int:
    """The place of the newest AGENTS.md text of the working directory; -1 if there is none."""
    head = f"{GUIDANCE_START}{cwd}\n"
    for number in range(len(items) - 1, -1, -1):
        item = items[number]
        if isinstance(item, Message) and item.role == "user" and _has_start(item.content, head):
            return number
    return -1


def _has_start(content: tuple[ContentPart, ...], head: str) -> bool:
    return any(not isinstance(one, InputImage) and one.text.startswith(head) for one in content)


def _size(content: str | tuple[ContentPart, ...]) -> int:
    if isinstance(content, str):
        return len(content.encode())
    return sum(
        _IMAGE_BYTES if isinstance(part, InputImage) else len(part.text.encode())
        for part in content
    )
