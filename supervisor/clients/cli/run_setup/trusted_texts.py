"""Shows whole files to the person who decides about trust: what is read by models or started.

Nothing of a file is left out. What is no text is named with its size and its hash.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import NotText, decode_written
from swarm.roles.config.file_reading import read_bounded

from ....base.safe_text import exact_line, exact_lines


def text_lines(data: bytes) -> Iterator[str]:
    """A file's lines, each marked, as exact text."""
    try:
        text = decode_written(data)
    except NotText:
        yield f"| ⟨{len(data):,} bytes that are not text, SHA-256 {_hash(data)}⟩"
        return
    for line in exact_lines(text.removesuffix("\n")) if text else ():
        yield f"| {line}"


def file_lines(path: str) -> Iterator[str]:
    """The lines of a file on disk; why it cannot be read stands in their place."""
    try:
        yield from text_lines(read_bounded(Path(path)))
    except (UsageError, OSError) as error:
        yield f"! {exact_line(str(error))}"


def shown_path(path: str, shown: str = "") -> str:
    """A path as it was given (`shown`), and where its links lead if that is elsewhere."""
    real = os.path.realpath(path)
    given = exact_line(shown or path)
    return given if real == os.path.normpath(path) else f"{given} (really {exact_line(real)})"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
