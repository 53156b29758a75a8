"""Turn `blob:<sha256>;<mime>` into the data URL that a provider reads, once, at encoding.

The reference comes from an agent, so both parts are checked before a path or a URL contains them.
"""

import base64
import re
from pathlib import Path

import msgspec

from swarm.mailbox.protocol.items import ContentPart, InputImage, InputText

MAX_IMAGE_BYTES = 20 * 1024 * 1024
_BLOB = re.compile(r"blob:(?P<sha256>[0-9a-f]{64});(?P<mime>image/[a-z0-9.+-]{1,40})\Z")


def resolve_image(part: InputImage, *, blobs_dir: Path, model_sees: bool) -> ContentPart:
    """The part as a provider reads it; a text instead if there is no image to show."""
    if not model_sees:
        return InputText(text="[an image was here; this model reads no images]")
    if part.image_url.startswith("https://"):
        return part
    found = _BLOB.match(part.image_url)
    if found is None:
        return InputText(text="[an image was here; its reference is not valid]")
    try:
        with (blobs_dir / found["sha256"]).open("rb") as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
    except OSError:
        return InputText(text="[an image was here; it is no longer stored]")
    if len(data) > MAX_IMAGE_BYTES:
        return InputText(text="[an image was here; it is too large to be sent]")
    url = f"data:{found['mime']};base64,{base64.b64encode(data).decode('ascii')}"
    return msgspec.structs.replace(part, image_url=url)


def resolve_images(
    content: tuple[ContentPart, ...], *, blobs_dir: Path, model_sees: bool
) -> tuple[ContentPart, ...]:
    """All parts with images resolved; the same tuple object if there are none."""
    if not any(isinstance(part, InputImage) for part in content):
        return content
    return tuple(
        resolve_image(part, blobs_dir=blobs_dir, model_sees=model_sees)
        if isinstance(part, InputImage)
        else part
        for part in content
    )
