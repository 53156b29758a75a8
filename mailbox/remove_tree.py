"""Removes a folder with all below it, however deep a command has made it.

Guards: never through a link, and never outside: every step is by a descriptor of a folder that is
held. `shutil.rmtree` descends by recursion, so a thousand folders in each other end it half-way;
here a folder in a folder is first moved up beside it, so that there are two levels at any time.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from .safe_open import FOLDER_FLAGS, NOFOLLOW_FLAGS, open_canonical

_USABLE = 0o700


def remove_tree(folder: str | Path) -> None:
    """Remove it. Blocks. Raises OSError: also for a link, and for what is not ours to remove.

    Only the path to the folder itself is resolved; the folder must not be in use any more.
    """
    name = Path(folder).name
    parent = open_canonical(str(Path(folder).parent.resolve()), FOLDER_FLAGS)
    try:
        top = _open_folder(parent, name)
        try:
            while _empty(top):
                pass
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=parent)
    finally:
        os.close(parent)


def _empty(top: int) -> bool:
    """Remove its files, and of each folder one level; False once nothing was there."""
    found = _entries(top)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            _flatten(top, entry.name)
        else:
            os.unlink(entry.name, dir_fd=top)
    return bool(found)


def _entries(folder: int) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _flatten(top: int, name: str) -> None:
    """A folder goes; those in it now lie beside it."""
    here = _open_folder(top, name)
    try:
        for entry in _entries(here):
            if entry.is_dir(follow_symlinks=False):
                os.close(_open_folder(here, entry.name))  # a closed one cannot be moved
                fresh = secrets.token_hex(16)
                os.rename(entry.name, fresh, src_dir_fd=here, dst_dir_fd=top)
            else:
                os.unlink(entry.name, dir_fd=here)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)


def _open_folder(parent: int, name: str) -> int:
    """No link. One that its mode closes to us is opened first, where it is ours."""
    held = os.open(name, NOFOLLOW_FLAGS | os.O_DIRECTORY, dir_fd=parent)
    try:
        if os.fstat(held).st_mode & _USABLE != _USABLE:
            with suppress(OSError):
                Path(f"/proc/self/fd/{held}").chmod(_USABLE)
        return os.open(".", FOLDER_FLAGS, dir_fd=held)
    finally:
        os.close(held)
