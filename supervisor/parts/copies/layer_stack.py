"""Reads what a copy shows through its layers, without a mount: by the rules of an overlay.

A name is what the topmost layer says that has it. A mark says that it is gone, or that a folder
shows nothing of the layers below. Confined code wrote the layers: no link is followed. Blocks.
"""

import errno
import os
import stat
from collections.abc import Iterable, Sequence

import msgspec

from swarm.mailbox.base.overlay_marks import is_opaque, is_whiteout
from swarm.mailbox.base.safe_open import FOLDER_FLAGS, open_canonical, scan_folder, stat_no_follow


class LayerStack(msgspec.Struct, frozen=True):
    """The layers of one root, the topmost first."""

    layers: tuple[str, ...]

    def find(self, rel: str) -> str | None:
        """Where the entry lies that shows at this path below the root; None: nothing does.

        Raises OSError.
        """
        found = self._holding(rel)
        return f"{found[0]}/{rel}".rstrip("/") if found else None

    def names_in(self, rel: str) -> set[str]:
        """What shows in this folder; nothing if it is none. Raises OSError."""
        shown: set[str] = set()
        gone: set[str] = set()
        for layer in self._holding(rel):
            try:
                with scan_folder(f"{layer}/{rel}".rstrip("/")) as scanned:
                    entries = [(one.name, one.stat(follow_symlinks=False)) for one in scanned]
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    return set()
                raise
            for name, facts in entries:
                if is_whiteout(facts):
                    gone.add(name)
                elif name not in gone:
                    shown.add(name)
            gone |= {name for name, _ in entries}
        return shown

    def _holding(self, rel: str) -> Sequence[str]:
        """The layers that make up the entry: one, or for a folder all that show in it."""
        holding: Sequence[str] = self.layers
        path = ""
        for step in filter(None, rel.split("/")):
            path = f"{path}/{step}" if path else step
            holding = _narrowed(holding, path)
        return holding


def _narrowed(layers: Iterable[str], rel: str) -> list[str]:
    """Those of the layers that still count at `rel`, one step further down."""
    found: list[str] = []
    for layer in layers:
        place = f"{layer}/{rel}"
        try:
            facts, _ = stat_no_follow(place)
        except FileNotFoundError:
            continue
        if is_whiteout(facts):
            break
        if not stat.S_ISDIR(facts.st_mode):
            return found or [layer]
        found.append(layer)
        if _is_opaque_folder(place):
            break
    return found


def layered_names(base: Iterable[str], layers: Sequence[str]) -> dict[str, str | None]:
    """All names that show through the layers over a base, and where the entry lies.

    Args:
        base: The names of the base; their entries lie there: None.
        layers: Over it, the topmost first.

    Raises OSError.
    """
    names: dict[str, str | None] = dict.fromkeys(base)
    for layer in reversed(layers):
        found = _LayerNames(layer)
        found.read()
        names = {name: place for name, place in names.items() if not found.hides(name)}
        names |= found.present
    return names


class _LayerNames:
    """What one layer has, and what it hides of the layers below."""

    def __init__(self, layer: str) -> None:
        self._layer = layer
        self._gone: set[str] = set()
        self._closed: set[str] = set()  # nothing below these shows
        self.present: dict[str, str | None] = {}

    def read(self) -> None:
        """Raises OSError."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with scan_folder(f"{self._layer}/{folder}".rstrip("/")) as scanned:
                entries = [(one.name, one.stat(follow_symlinks=False)) for one in scanned]
            for name, facts in entries:
                rel = f"{folder}/{name}" if folder else name
                is_folder = stat.S_ISDIR(facts.st_mode)
                if not is_folder or _is_opaque_folder(f"{self._layer}/{rel}"):
                    self._closed.add(rel)
                if is_whiteout(facts):
                    self._gone.add(rel)
                    continue
                self.present[rel] = f"{self._layer}/{rel}"
                if is_folder:
                    waiting.append(rel)

    def hides(self, name: str) -> bool:
        if name in self._gone:
            return True
        above = name.rpartition("/")[0]
        while above:
            if above in self._closed:
                return True
            above = above.rpartition("/")[0]
        return False


def _is_opaque_folder(path: str) -> bool:
    """Raises OSError."""
    fd = open_canonical(path, FOLDER_FLAGS)
    try:
        return is_opaque(fd)
    finally:
        os.close(fd)
