"""What an agent changed in its copy, as a value: its layer or tree compared with its base.

It was written by confined code. It is read by its canonical path, through no link, within
bounds; only regular files, folders and links count. What lies below `.git` or a protected name of a
root, in caches and in folders that the copy shows as they are is no part of the change. Blocks.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.overlay_marks import is_opaque, is_whiteout
from swarm.mailbox.base.path_rules import is_git_name, is_protected_name
from swarm.mailbox.base.safe_open import FOLDER_FLAGS, open_canonical, scan_folder

from ..undo.content_store import ContentStore, FileEntry, is_text
from ..undo.net_changes import NetChange
from .copy_folder import AgentCopy, CopyFolder
from .layer_stack import layered_names
from .prepare_commands import find_tool_folders
from .tree_survey import LEFT_OUT_NAMES, LIVE_MARKERS, LIVE_NAMES, MAX_FILES, Survey

MAX_PATHS = 20_000
MAX_BYTES = 512 << 20  # of all contents
_MAX_DEPTH = 200


class ChangeTooLarge(SwarmError):
    """The change has more files, or larger ones, than can be compared."""


class LayerChange(msgspec.Struct, frozen=True):
    """The whole change of one agent. Contents before and after are in the run's store."""

    agent: str
    agent_id: str
    roots: tuple[str, ...]
    cwd: str
    edits: tuple[NetChange, ...] = ()  # by path
    unreadable: tuple[str, ...] = ()  # paths whose state is not known: the change is not whole
    left_out: int = 0  # sockets, pipes, names that are no text
    above: str = ""  # id of the agent into whose copy it is to be merged; "": into the project

    @property
    def fingerprint(self) -> str:
        """The same for the same change; "" for none."""
        if not self.edits and not self.unreadable:
            return ""
        hasher = sha256()
        for path in self.unreadable:
            hasher.update(msgspec.msgpack.encode(path))
        for edit in self.edits:
            for entry in (edit.before, edit.after):
                assert entry is not None
                hasher.update(entry.state_bytes)
        return hasher.hexdigest()

    @property
    def files(self) -> int:
        return sum(not edit.is_folder for edit in self.edits)


def read_change(folder: CopyFolder, copy: AgentCopy, store: ContentStore) -> LayerChange:
    """Compare all layers of an agent with their bases.

    Raises ChangeTooLarge; OSError or ValueError if base or layer cannot be read.
    """
    edits: list[NetChange] = []
    unreadable: list[str] = []
    left_out, room = 0, MAX_BYTES
    prepared: Iterable[str] = ()  # what the copy shows by links
    if copy.tree and copy.prepared:
        prepared = find_tool_folders(folder.prepared_tree(copy.prepared))
    for index, root in enumerate(copy.roots):
        survey = folder.read_survey(copy.base, index)
        layers = folder.frozen_below(copy, str(index))
        reader = _LayerReader(
            own=copy.tree or str(folder.upper(copy.agent_id, index)),
            start=folder.read_start(copy.agent_id) if copy.tree else None,
            tree=str(folder.tree(copy.base, index)),
            root=root.path,
            survey=survey,
            names=(names := layered_names(survey.entries, layers) if layers else survey.entries),
            live=(*survey.live, *(_tool_folders(names) if layers else ()), *prepared),
            store=store,
            room=room,
        )
        edits += reader.edits(copy.path)
        unreadable += reader.unreadable
        left_out += reader.left_out
        room = reader.room
    edits.sort(key=lambda edit: edit.path)
    return LayerChange(
        agent=copy.path,
        agent_id=copy.agent_id,
        roots=tuple(root.path for root in copy.roots),
        cwd=copy.cwd,
        edits=tuple(edits),
        unreadable=tuple(unreadable),
        left_out=left_out,
        above=copy.above,
    )


def _tool_folders(names: Mapping[str, object]) -> set[str]:
    """The folders in frozen layers that tools fill: no survey has listed them."""
    found: set[str] = set()
    for name, place in names.items():
        folder, _, last = name.rpartition("/")
        if place is not None and last in LIVE_NAMES:
            found.add(name)
        elif place is not None and folder and last in LIVE_MARKERS:
            found.add(folder)
    return found


class _LayerReader(msgspec.Struct):
    own: str  # the upper layer, or the agent's tree
    start: Survey | None  # of that tree, before the agent began; None: it is a layer
    tree: str
    root: str
    survey: Survey
    names: Mapping[str, object]  # of the base; a text says where the entry lies, if not in `tree`
    live: tuple[str, ...]  # folders in it that tools fill
    store: ContentStore
    room: int  # bytes that may still be stored
    unreadable: list[str] = []
    left_out: int = 0

    def edits(self, agent: str) -> Iterator[NetChange]:
        present, hiding = self._walk()
        for name in sorted(present):
            yield from self._edit(name, present[name], agent)
        for name in self._removed(present, hiding):
            before = self._entry_of_base(name)
            if before is not None:
                yield _net_change(before, FileEntry(path=before.path, kind="absent"), agent)

    def _walk(self) -> tuple[dict[str, os.stat_result], list[str]]:
        """What the agent has made or changed, and names that hide what the base has there (`x`) or
        below (`x/`). Raises ChangeTooLarge, OSError.
        """
        present: dict[str, os.stat_result] = {}
        hiding: list[str] = []
        seen: set[str] = set()
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            found = self._scan(folder)
            if folder and folder not in self.names and not LIVE_MARKERS.isdisjoint(found):
                del present[folder]  # a tool made it and fills it
                continue
            for name, facts in found.items():
                rel = f"{folder}/{name}" if folder else name
                is_folder = stat.S_ISDIR(facts.st_mode)
                if not self._belongs(rel) or (name in LIVE_NAMES and is_folder):
                    continue
                if self.start is None and is_whiteout(facts):
                    hiding += (rel, f"{rel}/")
                    continue
                seen.add(rel)
                if not _is_entry(facts):
                    self.left_out += 1
                    continue
                if is_folder:
                    self._note_folder(rel, waiting)
                if self._is_as_at_start(rel, facts):
                    continue
                present[rel] = facts
                _check_count(len(present) + len(hiding))
                if not is_folder or (self.start is None and self._is_opaque(rel)):
                    hiding.append(f"{rel}/")
        if self.start is not None:
            hiding += (name for name in self.names if name not in seen)
        return present, hiding

    def _note_folder(self, rel: str, waiting: list[str]) -> None:
        """Have it read as well, unless it lies too deep."""
        if rel.count("/") < _MAX_DEPTH:
            waiting.append(rel)
        else:
            self.unreadable.append(f"{self.root}/{rel}")

    def _is_as_at_start(self, rel: str, facts: os.stat_result) -> bool:
        """True for what is in a tree and was there before; a layer holds none of that."""
        if self.start is None:
            return False
        before = self.start.entries.get(rel)
        return before is not None and before.has_facts(facts)

    def _scan(self, folder: str) -> dict[str, os.stat_result]:
        """What one folder of the layer holds. Raises ChangeTooLarge; OSError for the layer."""
        found: dict[str, os.stat_result] = {}
        try:
            with scan_folder(f"{self.own}/{folder}".rstrip("/")) as scanned:
                for one in scanned:
                    found[one.name] = one.stat(follow_symlinks=False)
                    _check_count(len(found), MAX_PATHS + (MAX_FILES if self.start else 0))
        except OSError:
            if not folder:
                raise
            self.unreadable.append(f"{self.root}/{folder}")
            return {}
        return found

    def _belongs(self, rel: str) -> bool:
        """False for what is never part of a change."""
        if not is_text(rel):
            self.left_out += 1
            return False
        return belongs_to_change(rel) and not any(
            rel == live or rel.startswith(f"{live}/") for live in self.live
        )

    def _is_opaque(self, rel: str) -> bool:
        try:
            fd = open_canonical(f"{self.own}/{rel}", FOLDER_FLAGS)
        except OSError:
            self.unreadable.append(f"{self.root}/{rel}")
            return False
        try:
            return is_opaque(fd)
        finally:
            os.close(fd)

    def _removed(self, present: dict[str, os.stat_result], hiding: Iterable[str]) -> list[str]:
        names = sorted(self.names)
        found: set[str] = set()
        for hidden in hiding:
            if not hidden.endswith("/"):
                if hidden in self.names:
                    found.add(hidden)
                continue
            for name in names[bisect_left(names, hidden) :]:
                if not name.startswith(hidden):
                    break
                found.add(name)
        return sorted(name for name in found - present.keys() if self._belongs(name))

    def _edit(self, name: str, facts: os.stat_result, agent: str) -> Iterator[NetChange]:
        before = self._entry_of_base(name)
        if before is None:
            return
        if before.kind == "folder" and stat.S_ISDIR(facts.st_mode):
            return
        after = self._stored(f"{self.own}/{name}", name)
        if after is not None and not before.is_same_as(after):
            yield _net_change(before, after, agent)

    def _entry_of_base(self, name: str) -> FileEntry | None:
        path = f"{self.root.rstrip('/')}/{name}"
        if name not in self.names:
            return FileEntry(path=path, kind="absent")
        place = self.names[name]
        return self._stored(place if isinstance(place, str) else f"{self.tree}/{name}", name)

    def _stored(self, source: str, name: str) -> FileEntry | None:
        """The entry with a copy of its contents; None: its path is now among the unreadable."""
        path = f"{self.root.rstrip('/')}/{name}"
        entry = self.store.copy_entry(source, path=path, most_bytes=self.room)
        if entry is None or entry.kind == "absent":
            self.unreadable.append(path)
            return None
        self.room -= entry.size
        if self.room <= 0:
            raise ChangeTooLarge(f"more than {MAX_BYTES >> 20} MiB were changed")
        return msgspec.structs.replace(entry, mode=entry.mode & 0o777)


def _check_count(count: int, most: int = MAX_PATHS) -> None:
    if count > most:
        raise ChangeTooLarge(f"more than {MAX_PATHS:,} files were changed")


def belongs_to_change(rel: str) -> bool:
    """False for protected names of a root, for repositories' own folders, for caches, and for what
    lies in folders that tools fill.
    """
    steps = rel.split("/")
    if is_protected_name(steps[0]) or not LIVE_NAMES.isdisjoint(steps[:-1]):
        return False
    return not any(is_git_name(step) or step in LEFT_OUT_NAMES for step in steps)


def _is_entry(facts: os.stat_result) -> bool:
    mode = facts.st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _net_change(before: FileEntry, after: FileEntry, agent: str) -> NetChange:
    return NetChange(after.path, before, after, (before, after), {agent})
