"""Merges into agents' copies: what is to be written there, who writes it, and how it ends.

Blocks.
"""

import os
import subprocess
import sys

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.merge_records import MergeBegan, MergeEnded

from ..undo.content_store import ContentStore
from .copy_folder import AgentCopy, CopyFolder
from .copy_writer import PROGRAM, CopyWrite, CopyWritten, write_into_copy
from .merge_apply import (
    MergeDone,
    MergeFailed,
    MergeStale,
    WriteMergeRecord,
    Written,
    end_finished,
    end_merge,
    recorded_edits,
)

_ENTER = (sys.executable, "-P", "-m", "swarm.worker.programs.enter_copy")
_LIMIT_S = 600.0
_WHY_CHARS = 500


class CopyInUse(SwarmError):
    """Only the process of the agent whose copy it is can write it now; nothing was merged."""


class CopyMerges:
    """Of one run."""

    def __init__(self, folder: CopyFolder, store: ContentStore) -> None:
        self._folder = folder
        self._store = store

    def find(self, agent_id: str) -> AgentCopy:
        """Raises SwarmError."""
        try:
            found = self._folder.find(agent_id)
        except (OSError, ValueError) as error:
            raise SwarmError(f"the copy of {agent_id} cannot be read: {error}") from error
        if found is None:
            raise SwarmError(f"the copy of {agent_id} is gone")
        return found

    def write(self, began: MergeBegan, *, finishes: bool = False) -> CopyWritten:
        """Write what was begun. No process of the copy's agent is there.

        `finishes`: an earlier try was cut off. Raises SwarmError, OSError, ValueError.
        """
        copy = self.find(began.into)
        order = self._order(began, copy, finishes=finishes)
        if copy.tree:
            return write_into_copy(order)
        mounts = msgspec.json.encode(self._folder.mounts(copy)).decode()
        return read_result(_run((*_ENTER, mounts, *PROGRAM, _encode(order))))

    def program(self, began: MergeBegan, *, finishes: bool = False) -> tuple[str, ...]:
        """What the agent's own process has to run for the same."""
        order = self._order(began, self.find(began.into), finishes=finishes)
        return (*PROGRAM, _encode(order))

    def _order(self, began: MergeBegan, copy: AgentCopy, *, finishes: bool) -> CopyWrite:
        edits = [edit for edit in recorded_edits(began, self._store) if edit.after is not None]
        return CopyWrite(
            merge_id=began.merge_id,
            store=str(self._store.make_folder()),
            before=self._store.write_manifest([edit.before for edit in edits]),
            after=self._store.write_manifest([edit.after for edit in edits if edit.after]),
            roots=tuple(root.path for root in copy.roots),
            tree=copy.tree,
            finishes=finishes,
        )


def end_copy_merge(
    began: MergeBegan, written: CopyWritten, write: WriteMergeRecord, *, finishes: bool = False
) -> MergeDone:
    """Journal what became of it. Raises MergeStale, MergeFailed: it is not done."""
    if written.stale:
        reason = f"the copy was changed since: {written.stale}"
        write(MergeEnded(merge_id=began.merge_id, applied=False, reason=reason), "")
        raise MergeStale(f"nothing was merged: {reason}; merge again")
    plain = Written(left=written.left, failed=written.failed, stuck=written.stuck)
    if finishes:
        return end_finished(began, plain, write)
    end_merge(began, plain, write)
    return MergeDone(began.merge_id, (), written.left)


def read_result(said: str) -> CopyWritten:
    """What the program printed. If it says nothing that can be read, the merge is cut off."""
    try:
        return decode_json_as(said, CopyWritten)
    except msgspec.DecodeError:
        return CopyWritten(stuck="the program that writes it ended without a word")


def _run(argv: tuple[str, ...]) -> str:
    """What it printed. Raises MergeFailed: it could not be run, and the merge is cut off."""
    lifeline, held = os.pipe()  # closes when this process is gone, which ends the program
    try:
        done = subprocess.run(
            argv, stdin=lifeline, capture_output=True, cwd="/", timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MergeFailed(f"the copy could not be written: {error}") from error
    finally:
        os.close(lifeline)
        os.close(held)
    if done.returncode != 0:
        why = done.stderr.decode("utf-8", "replace").strip()[-_WHY_CHARS:]
        raise MergeFailed(f"the copy could not be written: {why}")
    return done.stdout.decode("utf-8", "replace")


def _encode(order: CopyWrite) -> str:
    return msgspec.json.encode(order).decode()
