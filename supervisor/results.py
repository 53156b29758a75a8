"""The result: written to a file in one step."""

import os
from pathlib import Path

from swarm.mailbox.errors import SwarmError


def write_result(path: Path, text: str) -> None:
    """Write the final answer so that a reader sees all of it or the file before.

    Raises SwarmError naming the file.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise SwarmError(f"cannot write the result to {path}: {error.strerror}") from error
