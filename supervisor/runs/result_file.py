"""The result: written to a file in one step, in a folder that is held open from the run's start."""

from pathlib import Path
from typing import IO

from swarm.mailbox.errors import SwarmError, UsageError
from swarm.mailbox.safe_open import OpenFolder, check_file_name, resolve_links


class ResultFile:
    """Where `-o` puts the answer. A command that swaps the folder for a link leads it nowhere."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError: there is no such folder, or it is no name for a file."""
        self._path = path.absolute()
        try:
            check_file_name(self._path.name)
            self._folder = OpenFolder(resolve_links(self._path.parent))
        except OSError as error:
            raise UsageError(f"cannot write the result to {path}: {error.strerror}") from error

    def write(self, text: str) -> None:
        """All of it or nothing: a reader sees the file before until then. Raises SwarmError."""

        def write(file: IO[bytes]) -> None:
            file.write(text.encode("utf-8", "replace"))

        try:
            self._folder.replace(self._path.name, write)
        except OSError as error:
            raise SwarmError(
                f"cannot write the result to {self._path}: {error.strerror}"
            ) from error
