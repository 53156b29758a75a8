"""Writes the result file in one step, into a folder held open from the run's start."""

from pathlib import Path
from typing import IO

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.safe_open import OpenFolder, check_file_name, resolve_links


class ResultFile:
    """The file of `-o`. A command that replaces the folder by a link does not redirect it."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError: there is no such folder, or the file name is invalid."""
        self._path = path.absolute()
        try:
            check_file_name(self._path.name)
            self._folder = OpenFolder(resolve_links(self._path.parent))
        except OSError as error:
            raise UsageError(f"cannot write the result to {path}: {error.strerror}") from error

    def write(self, text: str) -> None:
        """Replace the file in one step: readers see the old one until then. Raises SwarmError."""

        def write(file: IO[bytes]) -> None:
            file.write(text.encode("utf-8", "replace"))

        try:
            self._folder.replace(self._path.name, write)
        except OSError as error:
            raise SwarmError(
                f"cannot write the result to {self._path}: {error.strerror}"
            ) from error
