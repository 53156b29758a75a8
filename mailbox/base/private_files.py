"""Makes what swarm keeps for itself: for this user alone, whatever the umask of the process is.

The umask is the person's: what agents make is made for them. So nothing private may rely on it.
"""

import os
from pathlib import Path

_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def make_own_folders(folder: Path, *, exist_ok: bool = True) -> None:
    """Make the folder and all that are missing above it, each with mode 0700.

    Those that are there keep their modes. Raises OSError; FileExistsError if the folder itself is
    there and must not be.
    """
    try:
        folder.mkdir(mode=_FOLDER_MODE)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_own_folders(folder.parent)
        make_own_folders(folder, exist_ok=exist_ok)
    except FileExistsError:
        if not exist_ok or not folder.is_dir():
            raise


def open_own_file(path: str | Path, flags: int = _WRITE) -> int:
    """Open a file for writing; a new one gets mode 0600. The caller closes the descriptor."""
    return os.open(path, flags, _FILE_MODE)


def write_own_file(path: str | Path, data: bytes) -> None:
    """Write a file; a new one gets mode 0600. Raises OSError."""
    with os.fdopen(open_own_file(path), "wb") as file:
        file.write(data)


def close_to_others(socket: str | Path) -> None:
    """Take a socket's file, which was made with the umask, from everybody else. Raises OSError."""
    os.chmod(socket, _FILE_MODE)  # noqa: PTH101 (a Path costs each agent's process pages)
