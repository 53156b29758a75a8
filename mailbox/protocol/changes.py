"""What is done to a file, as people are shown it."""

from typing import Literal

from .base import Value


class FileChange(Value):
    path: str  # absolute
    kind: Literal["add", "delete", "update"]
    unified_diff: str = ""
    move_path: str | None = None
