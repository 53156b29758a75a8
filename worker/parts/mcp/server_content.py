"""Resources and prompts of a server, as JSON texts that are cleaned and bounded.

What servers say is untrusted: texts lose control characters, lists and texts have a limit, and data
that no model can read is named, not shown.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, cast

import mcp_types

from swarm.mailbox.protocol.mcp import (
    GetMcpPrompt,
    ListMcpPrompts,
    ListMcpResources,
    McpImage,
    McpOutcome,
    McpPart,
    McpQuestion,
    McpText,
    ReadMcpResource,
)

from .call_result import IMAGE_KINDS, MAX_IMAGES_BYTES, MAX_TEXT_BYTES, cut_text, encode_json
from .prompt_arguments import match_arguments
from .tool_schema import clean_text

MAX_LISTED = 200  # resources in one list, of one server
MAX_LIST_BYTES = 256 << 10
MAX_PROMPT_BYTES = 64 << 10  # of all messages
_MAX_PAGES = 10
_NAME, _WORDS, _ADDRESS = 200, 500, 2_000  # characters
_Listed = tuple[list[dict[str, object]], str | None]


class ContentSession(Protocol):
    """What is used of an SDK session."""

    async def list_resources(
        self, *, params: mcp_types.PaginatedRequestParams | None = None
    ) -> mcp_types.ListResourcesResult: ...

    async def list_resource_templates(
        self, *, params: mcp_types.PaginatedRequestParams | None = None
    ) -> mcp_types.ListResourceTemplatesResult: ...

    async def read_resource(self, uri: str) -> mcp_types.ReadResourceResult: ...

    async def list_prompts(
        self, *, params: mcp_types.PaginatedRequestParams | None = None
    ) -> mcp_types.ListPromptsResult: ...

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None
    ) -> mcp_types.GetPromptResult: ...


async def answer_question(
    session: ContentSession, server: str, question: McpQuestion
) -> McpOutcome:
    """Ask the server; what the SDK raises is passed on.

    Raises ValueError for arguments that a prompt does not take.
    """
    match question:
        case ListMcpResources():
            return await _list_resources(session, server, question)
        case ReadMcpResource(uri=uri):
            return read_outcome(server, uri, await session.read_resource(uri))
        case ListMcpPrompts():
            listed = await _pages(lambda page: _prompts_page(session, server, page), cursor=None)
            return list_outcome("prompts", server, listed)
        case GetMcpPrompt(name=name, words=words):
            known = (await session.list_prompts()).prompts
            arguments = match_arguments(name, words, known)
            found = await session.get_prompt(name, arguments or None)
            return _completed(McpText(text=encode_json(prompt_messages(found))))


def list_outcome(key: str, server: str, listed: _Listed) -> McpOutcome:
    """`{server, KEY: […], nextCursor?}`; entries beyond the limits are left out and counted."""
    entries, cursor = listed
    kept = keep_listed(entries)
    body: dict[str, object] = {"server": server, key: kept}
    if cursor is not None:
        body["nextCursor"] = cursor
    if len(kept) < len(entries):
        body["left_out"] = len(entries) - len(kept)
    return _completed(McpText(text=encode_json(body)))


def keep_listed(entries: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """As many of the first entries as one list may hold."""
    kept: list[dict[str, object]] = []
    room = MAX_LIST_BYTES
    for one in entries:
        room -= len(encode_json(one).encode("utf-8", "replace"))
        if room < 0:
            break
        kept.append(one)
    return kept


async def _list_resources(
    session: ContentSession, server: str, question: ListMcpResources
) -> McpOutcome:
    cursor = question.cursor or None
    one_page = bool(question.server)  # of one server: page by page; of all: as a whole
    if question.templates:
        listed = await _pages(
            lambda page: _templates_page(session, server, page), cursor=cursor, one_page=one_page
        )
        return list_outcome("resourceTemplates", server, listed)
    listed = await _pages(
        lambda page: _resources_page(session, server, page), cursor=cursor, one_page=one_page
    )
    return list_outcome("resources", server, listed)


async def _pages(
    read: Callable[[mcp_types.PaginatedRequestParams | None], Awaitable[_Listed]],
    *,
    cursor: str | None,
    one_page: bool = False,
) -> _Listed:
    """The entries, and where the list goes on."""
    found: list[dict[str, object]] = []
    for _ in range(1 if one_page else _MAX_PAGES):
        page = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
        more, cursor = await read(page)
        found += more
        if not cursor or len(found) >= MAX_LISTED:
            break
    return found[:MAX_LISTED], cursor or None


async def _resources_page(
    session: ContentSession, server: str, page: mcp_types.PaginatedRequestParams | None
) -> _Listed:
    found = await session.list_resources(params=page)
    return [
        _entry(server, one, {"uri": one.uri[:_ADDRESS]}, size=one.size) for one in found.resources
    ], found.next_cursor


async def _templates_page(
    session: ContentSession, server: str, page: mcp_types.PaginatedRequestParams | None
) -> _Listed:
    found = await session.list_resource_templates(params=page)
    return [
        _entry(server, one, {"uriTemplate": one.uri_template[:_ADDRESS]})
        for one in found.resource_templates
    ], found.next_cursor


def _entry(
    server: str,
    one: mcp_types.Resource | mcp_types.ResourceTemplate,
    address: dict[str, object],
    *,
    size: int | None = None,
) -> dict[str, object]:
    values: dict[str, object] = {
        "server": server,
        **address,
        "name": clean_text(one.name, limit=_NAME),
        "title": clean_text(one.title or "", limit=_NAME),
        "description": clean_text(one.description or "", limit=_WORDS),
        "mimeType": clean_text(one.mime_type or "", limit=_NAME),
        "size": size,
    }
    return {key: value for key, value in values.items() if value not in ("", None)}


def read_outcome(server: str, uri: str, found: mcp_types.ReadResourceResult) -> McpOutcome:
    """`{server, uri, contents: […]}`, then the images; other data is named."""
    contents: list[dict[str, object]] = []
    images: list[McpPart] = []
    room = MAX_IMAGES_BYTES
    for one in found.contents:
        said: dict[str, object] = {"uri": clean_text(one.uri, limit=_ADDRESS)}
        if one.mime_type:
            said["mimeType"] = clean_text(one.mime_type, limit=_NAME)
        if isinstance(one, mcp_types.TextResourceContents):
            said["text"] = one.text
        else:
            size = len(one.blob) * 3 // 4
            image = decode_image(one.blob, one.mime_type or "", room=room)
            said["blob"] = f"[{size:,} bytes, {'shown below' if image else 'not shown'}]"
            if image is not None:
                room -= len(image.data)
                images.append(image)
        contents.append(said)
    body = encode_json({"server": server, "uri": uri, "contents": contents})
    return _completed(McpText(text=cut_text(body, MAX_TEXT_BYTES)), *images)


def decode_image(data: str, kind: str, *, room: int) -> McpImage | None:
    """None for data that is no image, or for which there is no room."""
    if kind not in IMAGE_KINDS or len(data) * 3 // 4 > room:
        return None
    try:
        return McpImage(data=base64.b64decode(data, validate=True), mime=kind)
    except (binascii.Error, ValueError):
        return None


async def _prompts_page(
    session: ContentSession, server: str, page: mcp_types.PaginatedRequestParams | None
) -> _Listed:
    found = await session.list_prompts(params=page)
    return [_prompt_entry(server, one) for one in found.prompts], found.next_cursor


def _prompt_entry(server: str, one: mcp_types.Prompt) -> dict[str, object]:
    return {
        "server": server,
        "name": one.name[:_NAME],
        "description": clean_text(one.description or one.title or "", limit=_WORDS),
        "arguments": [
            {
                "name": given.name[:_NAME],
                "description": clean_text(given.description or "", limit=_WORDS),
                "required": bool(given.required),
            }
            for given in (one.arguments or [])[:50]
        ],
    }


def prompt_messages(found: mcp_types.GetPromptResult) -> dict[str, object]:
    """`{messages: [{role, text}]}`: texts as they are but for control characters; bounded."""
    messages: list[dict[str, object]] = []
    room = MAX_PROMPT_BYTES
    for one in found.messages:
        text = cut_text(clean_text(_said(one.content), limit=MAX_PROMPT_BYTES), max(room, 0))
        room -= len(text.encode())
        messages.append({"role": one.role, "text": text})
        if room <= 0:
            break
    return {"messages": messages}


def _said(part: mcp_types.ContentBlock) -> str:
    match part:
        case mcp_types.TextContent():
            return part.text
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as resource):
            return f"{resource.uri}:\n{resource.text}"
        case mcp_types.EmbeddedResource():
            return f"[{part.resource.uri}: not shown]"
        case mcp_types.ResourceLink():
            return f"[{part.name}: {part.uri}]"
        case _:
            kind = cast("object", getattr(part, "mime_type", "")) or "data"
            return f"[{kind}: not shown]"


def _completed(*parts: McpPart) -> McpOutcome:
    return McpOutcome(state="completed", parts=parts)
