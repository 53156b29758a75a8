"""A person's images into the run's folder, by content address. Blocks: call it in a thread."""

import hashlib
from pathlib import Path

from swarm.mailbox.errors import UsageError

_MOST_BYTES = 20 * 1024 * 1024
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def image_mime(head: bytes) -> str | None:
    """The image type by its first bytes; None for anything else."""
    for magic, mime in _MAGIC:
        if head.startswith(magic):
            return mime
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def store_image(blobs: Path, image: str) -> tuple[str, str]:
    """Copy `image` into `blobs`; return its `blob:` reference and its name.

    Raises UsageError for a file that is missing, too large or no image.
    """
    path = Path(image)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{image} is over {_MOST_BYTES // 1024 // 1024} MiB; make it smaller")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the image {image}: {error.strerror}") from error
    mime = image_mime(data[:16])
    if mime is None:
        raise UsageError(f"{image} is not a PNG, JPEG, GIF or WebP image")
    digest = hashlib.sha256(data).hexdigest()
    target = blobs / digest
    if not target.exists():
        fresh = target.with_suffix(".new")
        fresh.write_bytes(data)
        fresh.replace(target)
    return f"blob:{digest};{mime}", path.name
