"""Cleans up an agent's private /tmp after its process has ended.

Removes only empty folders, and only those where bubblewrap mounted a folder of the machine, and the
caches of package managers. Follows no link: commands may have put some there.
"""

import os
import secrets
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath

from swarm.mailbox.base.path_rules import CACHES_FOLDER
from swarm.mailbox.base.remove_tree import remove_tree

_ASIDE = "gone-"
_TMP = PurePosixPath("/tmp")  # where commands see it
_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def set_caches_aside(folder: Path) -> Path | None:
    """Take the caches out of a private /tmp; the value is to be given to `remove_caches`."""
    aside = folder.parent / f"{_ASIDE}{secrets.token_hex(8)}"
    try:
        (folder / CACHES_FOLDER).rename(aside)
    except OSError:
        return None
    return aside


def remove_caches(aside: Path) -> None:
    """Remove caches that were set aside. Blocks."""
    with suppress(OSError):
        if aside.is_symlink() or not aside.is_dir():
            aside.unlink()
        else:
            remove_tree(aside)


def remove_all_caches(tmp: Path) -> None:
    """Remove the caches of all private /tmp folders in `tmp`, once nothing of the run is alive."""
    for folder in (*tmp.glob("*"), *tmp.glob("mcp/*")):
        if folder.name.startswith(_ASIDE):
            remove_caches(folder)
        elif not folder.is_symlink() and (aside := set_caches_aside(folder)) is not None:
            remove_caches(aside)
            with suppress(OSError):
                folder.rmdir()


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
