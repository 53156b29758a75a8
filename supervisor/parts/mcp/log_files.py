"""The servers' logs in the run's folder: one file each, bounded, known secrets redacted."""

import os
from pathlib import Path

from swarm.mailbox.base.redact import Redactor

MAX_FILE_BYTES = 1 << 20  # then it becomes `NAME.log.old`, in place of the one before


class ServerLogFiles:
    """Appends what servers wrote. The folder appears with the first text."""

    def __init__(self, folder: Path, redactor: Redactor) -> None:
        self._folder, self._redactor = folder, redactor

    def append(self, server: str, text: str) -> None:
        """Write at most some ten KB; blocks as long as that takes. A full disk costs the text.

        `server` is the name of a configured server, so it is fit for a file's name.
        """
        path = log_path(self._folder, server)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if path.exists() and path.stat().st_size > MAX_FILE_BYTES:
                path.replace(path.with_suffix(".log.old"))
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
                file.write(self._redactor.redact(text).encode("utf-8", "replace"))
        except OSError:
            return


def log_path(folder: Path, server: str) -> Path:
    """The newest log of a server."""
    return folder / f"{server}.log"
