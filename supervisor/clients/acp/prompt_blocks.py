"""A prompt's content blocks as text and images.

Embedded resources become text with their address. A link to a file is read through the editor where
it offers that, so that the agent sees what is not saved yet; of a selection only its lines. Else,
and where a file is too large or no text, the agent gets the link.
"""

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import new_uuid7

PromptBlock: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
ReadFile: TypeAlias = Callable[[str, int | None, int | None], Awaitable[str | None]]
MAX_TEXT_BYTES = 512 << 10  # as of `swarm send`
_MAX_IMAGE_BYTES = 16 << 20
_MAX_IMAGES = 16
_ROOM_FOR_WORDS = 64 << 10
_SELECTION = re.compile(r"L(\d{1,9})(?:[-:]L?(\d{1,9}))?|(\d{1,9})[-:](\d{1,9})")


class PromptContent:
    """What the blocks hold, in order. The images are files in `folder`; its owner deletes it."""

    def __init__(self, folder: Path, read_file: ReadFile | None) -> None:
        self._folder, self._read_file = folder, read_file
        self._texts: list[str] = []
        self.images: list[Path] = []

    @property
    def text(self) -> str:
        return "\n".join(self._texts).strip()

    async def add_all(self, blocks: Sequence[PromptBlock]) -> None:
        """Raises UsageError for what cannot be sent, and says why."""
        for block in blocks:
            match block:
                case TextContentBlock(text=text):
                    self._texts.append(text)
                case ImageContentBlock(data=data):
                    self._add_image(data)
                case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
                    self._texts.append(_quoted(resource.uri, resource.text))
                case EmbeddedResourceContentBlock(resource=resource):
                    raise UsageError(
                        f"{resource.uri[:200]} is not text; agents read text and images"
                    )
                case ResourceContentBlock():
                    await self._add_link(block)
                case AudioContentBlock():
                    raise UsageError("agents cannot listen; send text or images")
        size = len(self.text.encode(errors="replace"))
        if size > MAX_TEXT_BYTES:
            raise UsageError(
                f"the prompt has {size:,} bytes of text; at most {MAX_TEXT_BYTES:,} can be sent: "
                "name the files instead of embedding them"
            )
        if not self.text and not self.images:
            raise UsageError("the prompt is empty")

    def _add_image(self, data: str) -> None:
        if len(self.images) >= _MAX_IMAGES:
            raise UsageError(f"at most {_MAX_IMAGES} images with one prompt")
        if len(data) > _MAX_IMAGE_BYTES * 4 // 3:
            raise UsageError(f"an image has at most {_MAX_IMAGE_BYTES >> 20} MiB")
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UsageError(f"an image is not base64: {error}") from error
        path = self._folder / f"image-{new_uuid7()}"
        path.write_bytes(raw)
        self.images.append(path)

    async def _add_link(self, block: ResourceContentBlock) -> None:
        path = file_path(block.uri)
        text, lines = None, selected_lines(block.uri)
        if path is not None and self._read_file is not None:
            text = await self._read_file(path, *lines)
        if text is not None and lines[1] is not None:
            text = _only(text, lines[0] or 1, lines[1])
        if text is None or "\x00" in text or not self._has_room_for(text):
            selection = f"#{urlsplit(block.uri).fragment}" if lines[0] is not None else ""
            self._texts.append(f"[{block.name}]({f'{path}{selection}' if path else block.uri})")
        else:
            self._texts.append(_quoted(block.uri, text))

    def _has_room_for(self, text: str) -> bool:
        """False for what would make the prompt too large, with some room for other words."""
        if len(text) > MAX_TEXT_BYTES:
            return False
        size = len(self.text.encode(errors="replace")) + len(text.encode(errors="replace"))
        return size <= MAX_TEXT_BYTES - _ROOM_FOR_WORDS


def file_path(uri: str) -> str | None:
    """The absolute path of a `file://` address of this machine; None for any other address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    return unquote(parts.path) or None


def selected_lines(uri: str) -> tuple[int | None, int | None]:
    """The first line and the number of lines that an address selects: `#L5:8`, `#L10-L12`, `#L7`.

    (None, None) if it names the whole file.
    """
    try:
        found = _SELECTION.fullmatch(urlsplit(uri).fragment)
    except ValueError:
        return None, None
    if found is None:
        return None, None
    first = int(found[1] or found[3])
    last = int(found[2] or found[4] or first)
    first, last = max(min(first, last), 1), max(first, last, 1)
    return first, last - first + 1


def _only(text: str, first: int, count: int) -> str:
    """The lines of a selection, also from an editor that has sent the whole file."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[first - 1 : first - 1 + count]) if len(lines) > count else text


def _quoted(uri: str, text: str) -> str:
    return f'<resource uri="{uri}">\n{text}\n</resource>'
