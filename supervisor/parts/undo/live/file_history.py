"""File history of a live run: snapshots before a destructive call, scans after it, undo.

A snapshot is stored and journaled before the agent is told that it may continue.
"""

import os
from functools import partial

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.control import Done, Refused, UndoFiles
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import SnapshotSettled, SnapshotTaken
from swarm.mailbox.protocol.requests import ChangesReply, FilesKept, KeepFiles, RequestRefused

from ....agents.agent_record import Agent
from ....context.run_context import RunContext
from ....journal.journal_reader import read_records
from ..changed_files import list_changed_files
from ..content_store import ContentStore, SnapshotResult
from ..file_undo import (
    STORE_FAILED,
    SnapshotRecord,
    UndoReport,
    clear_cut_off_undos,
    describe_report,
    new_snapshot_id,
    undo_locked,
)
from ..patch_locks import PatchLocks
from ..snapshots import FilesPast, choose_snapshots, fold_snapshots
from .change_watcher import MAX_PATHS, ChangeWatcher

_EXCLUDED_FOLDERS = ("/proc", "/sys", "/dev")


class FileHistory:
    """One per run. `nursery` outlives every call."""

    def __init__(self, running: RunContext, nursery: trio.Nursery) -> None:
        self._run, self._nursery = running, nursery
        self.store = ContentStore(running.paths.file_copies, closed=running.paths.uncopied)
        self._open: dict[str, tuple[str, str, Agent]] = {}  # call id → snapshot, manifest
        self.lock = trio.Lock()  # held while files are compared, or written by the run itself
        self.change_watcher = ChangeWatcher(running, self.store, self.lock)
        self.patch_locks = PatchLocks(running.paths.project_locks, nursery)
        nursery.start_soon(self.change_watcher.run)

    async def take_snapshot(self, agent: Agent, request: KeepFiles) -> FilesKept | RequestRefused:
        """Copy the files that the request names. The reply names those that could not be copied."""
        if len(request.paths) > MAX_PATHS:
            return RequestRefused(message=f"more than {MAX_PATHS} paths at once")
        if agent.plan.limits.isolation == "copy":
            return FilesKept()  # the project keeps what the agent destroys in its copy
        paths = [path for path in request.paths if self._may_copy(path)]
        await self.change_watcher.request_scan()  # attributes earlier changes first
        try:
            async with self.lock:
                taken = await trio.to_thread.run_sync(self.store.take_snapshot, paths)
        except OSError as error:
            return RequestRefused(message=f"no copy could be made: {error.strerror}")
        name = new_snapshot_id()
        await self._run.commit(
            SnapshotTaken(
                snapshot_id=name,
                manifest=taken.manifest,
                files=taken.files,
                size_bytes=taken.size_bytes,
                turn_id=request.turn_id,
                call_id=request.call_id,
                left_out=taken.left_out,
            ),
            agent=agent.path,
        )
        self._open[request.call_id] = name, taken.manifest, agent
        return FilesKept(message=_left_out(taken))

    async def list_changes(self, agent: Agent) -> ChangesReply | RequestRefused:
        """What this agent changed in all its processes, by the journal, after a scan."""

        def work() -> ChangesReply:
            found = fold_snapshots(read_records(self._run.paths, file="run"))
            return list_changed_files(
                choose_snapshots(found, agent=agent.path), self.store, agent.plan.cwd
            )

        await self.change_watcher.request_scan()
        await self._run.journal.flush()
        try:
            return await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:
            return RequestRefused(message=f"the run's store cannot be read: {error}")

    def call_ended(self, call_id: str, *, detached: bool) -> None:
        """Record what the call left, in the background. Never waits."""
        self.patch_locks.release(call_id)
        self.change_watcher.call_ended(call_id, detached=detached)
        found = self._open.pop(call_id, None)
        if found is not None:
            self._nursery.start_soon(self._record_after, *found)

    async def undo(self, request: UndoFiles) -> Done | Refused:
        """Carry out a person's `swarm undo` of a live run."""

        def work() -> UndoReport | None:
            found = fold_snapshots(read_records(self._run.paths, file="run"))
            chosen = choose_snapshots(
                found, agent=request.agent, snapshot_id=request.snapshot_id, turns=request.turns
            )
            if not chosen:
                return None
            report = undo_locked(
                chosen,
                self._run.paths,
                self._commit_from_thread,
                force=request.force,
                keep=request.keep,
            )
            self.change_watcher.tree.refresh(report.touched)
            return report

        await self.change_watcher.request_scan()
        await self._run.journal.flush()
        try:
            async with self.lock:
                report = await trio.to_thread.run_sync(work)
        except SwarmError as error:
            return Refused(message=str(error), exit_code=error.exit_code)
        except (OSError, ValueError) as error:
            return Refused(message=f"{STORE_FAILED}: {error}")
        if report is None:
            return Refused(message="there is nothing to undo; `swarm undo RUN --list` shows it")
        text = describe_report(report, self._run.run_id)
        return Refused(message=text) if report.failed else Done(message=text)

    async def clear_cut_off_undos(self, past: FilesPast) -> None:
        """Remove what undos of an earlier part of the run left beside files."""

        def work() -> list[str]:
            return clear_cut_off_undos(past, self._run.paths)

        try:
            left = await trio.to_thread.run_sync(work)
        except (SwarmError, OSError, ValueError) as error:
            left = [f"{STORE_FAILED}: {error}"]
        if left:
            self._run.note(Warned(message=f"left by an undo that was cut off: {', '.join(left)}"))

    async def _record_after(self, name: str, manifest: str, agent: Agent) -> None:
        def look() -> str:
            return self.store.write_current_manifest(self.store.read_manifest(manifest))

        try:
            after = await trio.to_thread.run_sync(look)
        except (OSError, ValueError):
            return  # an undo then restores only what is missing
        self._run.note(SnapshotSettled(snapshot_id=name, manifest=after), agent=agent.path)

    def _commit_from_thread(self, body: SnapshotRecord, agent: str) -> None:
        trio.from_thread.run(partial(self._run.commit, body, agent=agent))

    def _may_copy(self, path: str) -> bool:
        """False for the kernel's files and the run's own files: the store would copy itself."""
        real = os.path.realpath(path)
        own = (str(self._run.paths.folder.parent), str(self._run.paths.sockets))
        return path.startswith("/") and not any(
            is_within(real, one) for one in (*_EXCLUDED_FOLDERS, *own)
        )


def _left_out(taken: SnapshotResult) -> str:
    if not taken.left_out:
        return ""
    some = ", ".join(taken.left_out[:3])
    return f"no copy is kept of {len(taken.left_out)} of them (too large or unreadable): {some}"
