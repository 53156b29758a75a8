"""Removes a folder tree of any depth.

Never follows a link and never leaves the tree: every step goes through an open folder descriptor.
`shutil.rmtree` recurses, so a thousand nested folders stop it half-way. Here each nested folder is
first moved up, so there are at most two levels at any time.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from .safe_open import FOLDER_FLAGS, NOFOLLOW_FLAGS, open_canonical

_USABLE = 0o700


def remove_tree(folder: str | Path) -> None:
    """Remove a folder tree. Blocks. Raises OSError, also for a link or for files we may not remove.

    Links are resolved only in the path to the folder itself. The folder must not be in use.
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
    """Remove the files, and one level of each folder. False if nothing was left."""
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
    """Remove a folder after moving its subfolders up beside it."""
    here = _open_folder(top, name)
    try:
        for entry in _entries(here):
            if entry.is_dir(follow_symlinks=False):
                # a folder without permissions cannot be moved: this opens it
                os.close(_open_folder(here, entry.name))
                fresh = secrets.token_hex(16)
                os.rename(entry.name, fresh, src_dir_fd=here, dst_dir_fd=top)
            else:
                os.unlink(entry.name, dir_fd=here)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)


def _open_folder(parent: int, name: str) -> int:
    """Open a folder without following links. If it is ours and its mode denies access, chmod it."""
    held = os.open(name, NOFOLLOW_FLAGS | os.O_DIRECTORY, dir_fd=parent)
    try:
        if os.fstat(held).st_mode & _USABLE != _USABLE:
            with suppress(OSError):
                Path(f"/proc/self/fd/{held}").chmod(_USABLE)
        return os.open(".", FOLDER_FLAGS, dir_fd=held)
    finally:
        os.close(held)
