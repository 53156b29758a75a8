"""Freezes what an agent has written in its copy, as a layer that others see and nobody changes.

A layer that is mounted must not lie below another mount, so it is copied: files, folders and links,
and the marks by which it hides what lies below. Confined code wrote it, and may write it meanwhile:
it is read through no link, and within bounds. Blocks.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.base.overlay_marks import NO_DEVICE, OPAQUE, is_opaque, is_whiteout
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.base.safe_open import FOLDER_FLAGS, open_canonical, scan_folder, stat_no_follow

from .base_tree import copy_file
from .tree_survey import MAX_FILES, CopyRefused

MAX_BYTES = 2 << 30
_MAX_DEPTH = 200


class LayerFreezer:
    """Copies the layers of one agent; the bounds are for all of them together."""

    def __init__(
        self,
        go_on: Callable[[], None] = lambda: None,
        *,
        entries: int = MAX_FILES,
        size: int = MAX_BYTES,
    ) -> None:
        """`go_on`: called before each entry; what it raises ends the work."""
        self._go_on = go_on
        self._entries = entries
        self._room = size

    def freeze(self, layer: str, into: Path) -> None:
        """Make `into`, unless the layer is empty. Half of an earlier one is made anew.

        Raises CopyRefused: it is too large; OSError: the layer cannot be read, or no copy written.
        """
        if into.is_dir():
            remove_tree(into)
        if not self._scan(layer):
            return
        make_own_folders(into)
        try:
            self._copy_folder(layer, into, 0)
        except BaseException:
            with suppress(OSError):
                remove_tree(into)  # half of a layer would show half of the work
            raise

    def _scan(self, layer: str) -> list[tuple[str, os.stat_result]]:
        found: list[tuple[str, os.stat_result]] = []
        with scan_folder(layer) as scanned:
            for one in scanned:
                self._take(0)
                with suppress(FileNotFoundError):
                    found.append((one.name, one.stat(follow_symlinks=False)))
        return found

    def _take(self, size: int) -> None:
        self._entries -= 1
        self._room -= size
        if self._entries < 0 or self._room < 0:
            raise CopyRefused(
                "what its parent has written in its copy is too large for another agent to see; "
                "start the agent before that is written, or read it yourself"
            )

    def _copy_folder(self, layer: str, into: Path, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise CopyRefused(f"its parent has written folders deeper than {_MAX_DEPTH} levels")
        for name, facts in self._scan(layer):
            self._go_on()
            source, target = f"{layer}/{name}", into / name
            if is_whiteout(facts):
                os.mknod(target, stat.S_IFCHR, NO_DEVICE)
            elif stat.S_ISLNK(facts.st_mode):
                with suppress(OSError):  # it is gone, or something else by now
                    target.symlink_to(stat_no_follow(source)[1])
            elif stat.S_ISDIR(facts.st_mode):
                target.mkdir(mode=0o700)
                with suppress(FileNotFoundError):
                    self._copy_folder(source, target, depth + 1)
            elif stat.S_ISREG(facts.st_mode):
                self._take(facts.st_size)
                copy_file(source, target, facts.st_size, facts.st_mode & 0o777)
        self._close_folder(layer, into)

    def _close_folder(self, layer: str, into: Path) -> None:
        """The folder's marks, mode and times, once all is in it."""
        fd = open_canonical(layer, FOLDER_FLAGS)
        try:
            facts = os.fstat(fd)
            if is_opaque(fd):
                os.setxattr(into, OPAQUE, b"y")
        finally:
            os.close(fd)
        os.utime(into, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        into.chmod(facts.st_mode & 0o777)
