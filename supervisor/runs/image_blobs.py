"""Stores images in the run's folder under their content hash. Blocks: call it in a thread.

Nothing but images becomes a blob, since data read by its hash cannot be redacted: text is refused,
and so is an image that contains a key of the run.
"""

import hashlib
import os
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.private_files import write_own_file
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, open_user_file, read_whole
from swarm.mailbox.protocol.requests import BlobStored, RequestRefused, StoreBlob

_MAX_BLOB_BYTES = 32 * 1024 * 1024
_MAX_BYTES = 20 * 1024 * 1024
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


def check_image(path: Path) -> str:
    """The type of an image file, by its first bytes.

    Raises UsageError for a file that is missing, too large or no image.
    """
    return _read_image(path, is_canonical=False)[1]


def store_image(blobs: Path, image: str) -> tuple[str, str]:
    """Copy `image`, a canonical path, into `blobs`; return its `blob:` reference and its name.

    The bytes that are checked are those that are stored, and a link that a command put on the way
    is not followed. Raises UsageError for a file that is missing, too large or no image.
    """
    path = Path(image)
    data, mime = _read_image(path, is_canonical=True)
    digest = hashlib.sha256(data).hexdigest()
    _write_once(blobs / digest, data)
    return f"blob:{digest};{mime}", path.name


def _read_image(path: Path, *, is_canonical: bool) -> tuple[bytes, str]:
    try:
        fd = open_canonical(str(path), READ_FLAGS) if is_canonical else open_user_file(path)
        data = read_whole(fd, most_bytes=_MAX_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read the image {path}: {error.strerror}") from error
    mime = image_mime(data[:16])
    if mime is None:
        raise UsageError(f"{path} is not a PNG, JPEG, GIF or WebP image")
    return data, mime


def store_blob(blobs: Path, request: StoreBlob, redactor: Redactor) -> BlobStored | RequestRefused:
    """Store an image that an agent looked at; never raises."""
    digest = hashlib.sha256(request.data).hexdigest()
    if digest != request.sha256 or len(request.data) > _MAX_BLOB_BYTES:
        return RequestRefused(message="the bytes do not fit their sha256, or are over 32 MiB")
    if image_mime(request.data[:16]) is None:
        return RequestRefused(message="it is no PNG, JPEG, GIF or WebP picture")
    if redactor.holds_known_secret(request.data):
        return RequestRefused(message="a key of this run stands in the file")
    path = blobs / digest
    try:
        _write_once(path, request.data)
    except OSError as error:
        return RequestRefused(message=f"cannot store it: {error.strerror}")
    return BlobStored(path=str(path))


def _write_once(path: Path, data: bytes) -> None:
    if not path.exists():
        fresh = path.with_suffix(f".{os.getpid()}")
        write_own_file(fresh, data)
        fresh.replace(path)
