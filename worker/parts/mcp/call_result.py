"""Turns a tool's result into what an agent gets: text and images, bounded. Pure.

As Codex: the text is the JSON of the structured content, else the JSON of the content list; where
there are images, each part stays a part.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import cast

import mcp_types
import msgspec

from swarm.mailbox.protocol.mcp import McpImage, McpOutcome, McpPart, McpText

MAX_TEXT_BYTES = 1 << 20  # of one result
MAX_IMAGES_BYTES = 6 << 20  # of one result, decoded
IMAGE_KINDS = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def convert_result(result: mcp_types.CallToolResult, *, duration_s: float) -> McpOutcome:
    """The outcome of a call that the server answered."""
    is_structured = False
    if any(isinstance(part, mcp_types.ImageContent) for part in result.content):
        parts = _parts(result.content)
    else:
        text = _text(result)
        cut = cut_text(text, MAX_TEXT_BYTES)
        parts = (McpText(text=cut),)
        is_structured = cut == text and result.structured_content is not None
    return McpOutcome(
        state="completed",
        parts=parts,
        is_error=bool(result.is_error),
        duration_s=duration_s,
        is_structured=is_structured,
    )


def redact_outcome(outcome: McpOutcome, redact: Callable[[str], str]) -> McpOutcome:
    """The outcome with every text redacted."""
    parts = tuple(
        McpText(text=redact(part.text)) if isinstance(part, McpText) else part
        for part in outcome.parts
    )
    return msgspec.structs.replace(outcome, parts=parts)


def cut_text(text: str, limit_bytes: int) -> str:
    """The beginning and the end of a text that is too long, and how much is left out."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit_bytes:
        return text
    half = limit_bytes // 2
    head, tail = raw[:half].decode("utf-8", "ignore"), raw[-half:].decode("utf-8", "ignore")
    return f"{head}\n[… {len(raw) - limit_bytes:,} bytes of this result are left out …]\n{tail}"


def _text(result: mcp_types.CallToolResult) -> str:
    if result.structured_content is not None:
        return encode_json(result.structured_content)
    return encode_json([_plain(part) for part in result.content])


def _plain(part: mcp_types.ContentBlock) -> dict[str, object]:
    """A part as a JSON object; data that no model can read is named, not shown."""
    plain = cast(
        "dict[str, object]", part.model_dump(mode="json", by_alias=True, exclude_none=True)
    )
    if isinstance(part, mcp_types.AudioContent | mcp_types.ImageContent):
        plain["data"] = f"[{len(part.data) * 3 // 4:,} bytes of {part.mime_type}, not shown]"
    elif isinstance(part, mcp_types.EmbeddedResource) and isinstance(
        part.resource, mcp_types.BlobResourceContents
    ):
        resource = cast("dict[str, object]", plain["resource"])
        resource["blob"] = f"[{len(part.resource.blob) * 3 // 4:,} bytes, not shown]"
    return plain


def _parts(content: Sequence[mcp_types.ContentBlock]) -> tuple[McpPart, ...]:
    found: list[McpPart] = []
    texts, images = MAX_TEXT_BYTES, MAX_IMAGES_BYTES
    for part in content:
        image = _decoded(part, images) if isinstance(part, mcp_types.ImageContent) else None
        if image is not None:
            images -= len(image.data)
            found.append(image)
            continue
        text = part.text if isinstance(part, mcp_types.TextContent) else encode_json(_plain(part))
        if texts > 0:
            cut = cut_text(text, texts)
            texts -= len(cut)
            found.append(McpText(text=cut))
    return tuple(found)


def _decoded(part: mcp_types.ImageContent, room: int) -> McpImage | None:
    """None for data that is no image, or for which there is no room."""
    if part.mime_type not in IMAGE_KINDS or len(part.data) * 3 // 4 > room:
        return None
    try:
        data = base64.b64decode(part.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return McpImage(data=data, mime=part.mime_type)


def encode_json(value: object) -> str:
    """The JSON of a value, or a text that says that it has none."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, UnicodeError, RecursionError):
        return "[a result that cannot be written as JSON]"
