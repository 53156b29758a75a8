"""Cleans up an agent's private /tmp after its process has ended.

Removes only empty folders, and only those where bubblewrap mounted a folder of the machine. Follows
no link: commands may have put some there.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath

_TMP = PurePosixPath("/tmp")  # where commands see it
_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_private_tmp(folder: Path, mounted: Iterable[str]) -> None:
    """Remove the mount points of these folders, and the private /tmp itself if it is empty then.

    Args:
        folder: The private /tmp.
        mounted: Folders that commands could reach at their own paths, also below /tmp.
    """
    for path in mounted:
        place = PurePosixPath(os.path.normpath(path))
        if place.is_relative_to(_TMP) and place != _TMP:
            with suppress(OSError):
                _remove_empty(folder, place.relative_to(_TMP).parts)
    with suppress(OSError):
        folder.rmdir()


def _remove_empty(folder: Path, steps: tuple[str, ...]) -> None:
    """Remove the last of these folders, then its parent, and so on while they are empty."""
    with ExitStack() as opened:
        held = [os.open(folder, _FOLDER_FLAGS)]
        opened.callback(os.close, held[0])
        for step in steps[:-1]:
            held.append(os.open(step, _FOLDER_FLAGS, dir_fd=held[-1]))
            opened.callback(os.close, held[-1])
        for step, above in zip(reversed(steps), reversed(held), strict=True):
            os.rmdir(step, dir_fd=above)
