"""The live run's keeper of files: copies before a destructive call, looks after it, puts back.

Rule guarded: the snapshot is in the store and journaled before the agent hears that it may go on.
"""

import os

import trio

from swarm.mailbox.path_rules import is_within
from swarm.mailbox.protocol.control import Done, Refused, UndoFiles
from swarm.mailbox.protocol.records import SnapshotSettled, SnapshotTaken
from swarm.mailbox.protocol.requests import ChangesAre, FilesKept, KeepFiles, RequestRefused

from ..agents import LiveAgent
from ..journal.reading import read_records
from ..running import Running
from .changed import list_changed
from .past import choose, fold_snapshots
from .reporting import describe_report
from .store import Store, Taken
from .undoing import SnapshotRecord, UndoReport, new_snapshot_id, undo
from .watching import Watching

MOST_PATHS = 2_000
_NEVER = ("/proc", "/sys", "/dev")


class Keeping:
    """One a run. `nursery` outlives every call."""

    def __init__(self, running: Running, nursery: trio.Nursery) -> None:
        self._run, self._nursery = running, nursery
        self.store = Store(running.places.kept)
        self._open: dict[str, tuple[str, str, LiveAgent]] = {}  # call id → snapshot, manifest
        self._one_at_a_time = trio.Lock()
        self.watching = Watching(running, self.store, self._one_at_a_time)
        nursery.start_soon(self.watching.run)

    async def keep(self, agent: LiveAgent, wish: KeepFiles) -> FilesKept | RequestRefused:
        """Copy what the wish names. What cannot be copied is named in the reply."""
        if len(wish.paths) > MOST_PATHS:
            return RequestRefused(message=f"more than {MOST_PATHS} paths at once")
        paths = [path for path in wish.paths if self._may_keep(path)]
        await self.watching.look()  # what was changed before is not this call's
        try:
            async with self._one_at_a_time:
                taken = await trio.to_thread.run_sync(self.store.take, paths)
        except OSError as error:
            return RequestRefused(message=f"no copy could be made: {error.strerror}")
        name = new_snapshot_id()
        await self._run.commit(
            SnapshotTaken(
                snapshot_id=name,
                manifest=taken.manifest,
                files=taken.files,
                size_bytes=taken.size_bytes,
                turn_id=wish.turn_id,
                call_id=wish.call_id,
                left_out=taken.left_out,
            ),
            agent=agent.path,
        )
        self._open[wish.call_id] = name, taken.manifest, agent
        return FilesKept(message=_left_out(taken))

    async def list_changes(self, agent: LiveAgent) -> ChangesAre | RequestRefused:
        """What this agent changed over all its lives, by the journal; as of a look right now."""

        def work() -> ChangesAre:
            found = fold_snapshots(read_records(self._run.places, file="run"))
            return list_changed(choose(found, agent=agent.path), self.store, agent.plan.cwd)

        await self.watching.look()
        await self._run.journal.settle()
        try:
            return await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:
            return RequestRefused(message=f"the run's store cannot be read: {error}")

    def call_ended(self, call_id: str, *, detached: bool) -> None:
        """Look at what the call left, beside everything else. Never waits."""
        self.watching.call_ended(call_id, detached=detached)
        found = self._open.pop(call_id, None)
        if found is not None:
            self._nursery.start_soon(self._settle, *found)

    async def undo(self, wish: UndoFiles) -> Done | Refused:
        """A person's `swarm undo` of a live run."""

        def work() -> UndoReport | None:
            found = fold_snapshots(read_records(self._run.places, file="run"))
            chosen = choose(found, agent=wish.agent, snapshot_id=wish.snapshot_id, turns=wish.turns)
            if not chosen:
                return None
            report = undo(chosen, self.store, self._note_from_thread, force=wish.force)
            self.watching.tree.refresh(report.touched)
            return report

        await self.watching.look()
        await self._run.journal.settle()
        try:
            async with self._one_at_a_time:
                report = await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:
            return Refused(message=f"the run's store cannot be read: {error}")
        if report is None:
            return Refused(message="there is nothing to undo; `swarm undo RUN --list` shows it")
        return Done(message=describe_report(report, self._run.run_id))

    async def _settle(self, name: str, manifest: str, agent: LiveAgent) -> None:
        def look() -> str:
            return self.store.look(self.store.read_manifest(manifest))

        try:
            after = await trio.to_thread.run_sync(look)
        except (OSError, ValueError):
            return  # then an undo restores only what is missing
        self._run.note(SnapshotSettled(snapshot_id=name, manifest=after), agent=agent.path)

    def _note_from_thread(self, body: SnapshotRecord, agent: str) -> None:
        def note() -> None:
            self._run.note(body, agent=agent)

        trio.from_thread.run_sync(note)

    def _may_keep(self, path: str) -> bool:
        """Not the kernel's files, nor the run's own: its store would keep itself."""
        real = os.path.realpath(path)
        own = (str(self._run.places.folder.parent), str(self._run.places.sockets))
        return path.startswith("/") and not any(is_within(real, one) for one in (*_NEVER, *own))


def _left_out(taken: Taken) -> str:
    if not taken.left_out:
        return ""
    some = ", ".join(taken.left_out[:3])
    return f"no copy is kept of {len(taken.left_out)} of them (too large or unreadable): {some}"
