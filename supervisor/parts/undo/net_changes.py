"""Composes file changes into one net change per path: before the first, after the last. No I/O.

A path is marked if somebody else's change lies between two of the agent's, or if the authors cannot
be told apart; an undo then leaves it alone.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from .content_store import UNKNOWN, FileEntry


class RecordedChange(msgspec.Struct, frozen=True):
    """One recorded change by one agent. `after` lacks a path whose state was not recorded."""

    agent: str
    before: Sequence[FileEntry]
    after: Sequence[FileEntry]
    shared_with: tuple[str, ...] = ()


class NetChange(msgspec.Struct):
    """One path over all chosen steps. `after` None: the last state was not recorded."""

    path: str
    before: FileEntry
    after: FileEntry | None
    last: tuple[FileEntry, FileEntry | None]  # the latest step alone
    sharers: set[str]  # agents that may have made part of the change
    is_broken: bool = False  # something else changed it between two steps

    @property
    def has_copy(self) -> bool:
        """False if the previous contents are not in the store."""
        return self.before.sha256 != UNKNOWN

    @property
    def is_folder(self) -> bool:
        """True if it was a folder, or is one now."""
        return "folder" in (self.before.kind, "" if self.after is None else self.after.kind)

    @property
    def is_empty(self) -> bool:
        return self.after is not None and self.has_copy and self.before.is_same_as(self.after)


def compose_changes(steps: Iterable[RecordedChange]) -> list[NetChange]:
    """Net changes, sorted by path, without empty ones. `steps` come oldest first."""
    edits: dict[str, NetChange] = {}
    for step in steps:
        left = {entry.path: entry for entry in step.after}
        for before in step.before:
            _add(edits, step, before, left.get(before.path))
    return [edits[path] for path in sorted(edits) if not edits[path].is_empty]


def others_of(edit: NetChange, agents: Collection[str]) -> list[str]:
    """The agents outside `agents` that may have made part of this change."""
    return sorted(edit.sharers - set(agents))


def _add(
    edits: dict[str, NetChange], step: RecordedChange, before: FileEntry, after: FileEntry | None
) -> None:
    who = {step.agent, *step.shared_with}
    edit = edits.get(before.path)
    if edit is None:
        edits[before.path] = NetChange(before.path, before, after, (before, after), who)
        return
    edit.sharers |= who
    if _is_same_step(edit.last, before, after):
        return  # the same change seen again: as a copy before a loss, or by another sharer
    gap = edit.after is None or not before.is_same_as(edit.after)
    edit.is_broken |= gap
    edit.after, edit.last = after, (before, after)


def _is_same_step(
    last: tuple[FileEntry, FileEntry | None], before: FileEntry, after: FileEntry | None
) -> bool:
    if not last[0].is_same_as(before):
        return False
    return after is None or last[1] is None or last[1].is_same_as(after)
