"""Where a merge goes: the project, or the copy of the agent of whose copy others have copies.

What is there now is read here. Confined code wrote a copy: no link is followed. Blocks.
"""

from typing import Protocol

import msgspec

from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.safe_open import scan_folder

from ..undo.content_store import ContentStore, FileEntry
from .copy_folder import AgentCopy, CopyFolder
from .layer_stack import LayerStack


class MergeTarget(Protocol):
    """Reads what stands now at paths of the project, in the project or in a copy of it."""

    @property
    def name(self) -> str: ...

    def read(self, path: str, store: ContentStore, *, most_bytes: int) -> FileEntry | None:
        """The entry, with a copy of its contents; None: it cannot be copied."""
        ...

    def names_in(self, folder: str) -> set[str]:
        """What the folder holds; nothing if there is none."""
        ...


class ProjectTarget(msgspec.Struct, frozen=True):
    """The project itself."""

    name: str = "the project"

    def read(self, path: str, store: ContentStore, *, most_bytes: int) -> FileEntry | None:
        return store.copy_entry(path, path=path, most_bytes=most_bytes)

    def names_in(self, folder: str) -> set[str]:
        return _names_in(folder)


PROJECT = ProjectTarget()


class CopyTarget:
    """An agent's copy: a folder of its own, or layers, which are read without a mount."""

    def __init__(self, folder: CopyFolder, copy: AgentCopy) -> None:
        self.copy = copy
        self.name = f"the copy of {copy.path}"
        self._stacks = {
            root.path: LayerStack(folder.all_layers(copy, index))
            for index, root in enumerate(copy.roots)
        }

    def read(self, path: str, store: ContentStore, *, most_bytes: int) -> FileEntry | None:
        try:
            place = self._find(path)
        except OSError:
            return None
        if place is None:
            return FileEntry(path=path, kind="absent")
        return store.copy_entry(place, path=path, most_bytes=most_bytes)

    def names_in(self, folder: str) -> set[str]:
        stack, rel = self._inside(folder)
        try:
            return stack.names_in(rel)
        except OSError:
            return set()

    def _find(self, path: str) -> str | None:
        stack, rel = self._inside(path)
        return stack.find(rel)

    def _inside(self, path: str) -> tuple[LayerStack, str]:
        """Roots may lie in each other. Raises ValueError for a path outside of the copy."""
        inside = [root for root in self._stacks if is_within(path, root)]
        if not inside:
            raise ValueError(f"{path} lies in no copied folder")
        root = max(inside, key=len)
        return self._stacks[root], path.removeprefix(root).lstrip("/")


def _names_in(folder: str) -> set[str]:
    try:
        with scan_folder(folder) as scanned:
            return {one.name for one in scanned}
    except OSError:
        return set()  # it is gone, or no folder
