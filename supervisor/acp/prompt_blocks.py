"""A prompt's content blocks as text and images.

Embedded resources become text with their address. A link to a file is read through the editor where
it offers that, so that the agent sees what is not saved yet; otherwise the agent gets the link.
"""

import base64
import binascii
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

from swarm.mailbox.errors import UsageError
from swarm.mailbox.ids import new_uuid7

PromptBlock: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
ReadFile: TypeAlias = Callable[[str], Awaitable[str | None]]
MAX_TEXT_BYTES = 512 << 10  # as of `swarm send`
_MAX_IMAGE_BYTES = 16 << 20
_MAX_IMAGES = 16


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
        text = None
        if path is not None and self._read_file is not None:
            text = await self._read_file(path)
        if text is None:
            self._texts.append(f"[{block.name}]({path or block.uri})")
        else:
            self._texts.append(_quoted(block.uri, text))


def file_path(uri: str) -> str | None:
    """The absolute path of a `file://` address of this machine; None for any other address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    return unquote(parts.path) or None


def _quoted(uri: str, text: str) -> str:
    return f'<resource uri="{uri}">\n{text}\n</resource>'
