"""Records which agent changed which file, by scans before and after calls that may change files.

One scan precedes a turn's first such call, and one follows each call. A call waits at most
SCAN_WAIT_S for the scan that records the files' state before it. Changes that a scan finds are
journaled with agent and turn. Scans run in the background, so a turn's diff is recorded soon after
its end and no turn waits for it.
"""

import math
import time
from collections.abc import Iterable, Sequence
from functools import partial

import trio

from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import FilesChanged, WatchBegan
from swarm.mailbox.protocol.requests import FilesWatched, RequestRefused, WatchFiles
from swarm.mailbox.protocol.values.limits import ReadOnly

from ....agents.agent_record import Agent
from ....context.run_context import RunContext
from ....request.run_request import RunRequest
from ..attribution import AttributedChanges, CallWindow, attribute_changes
from ..content_store import ContentStore, FileEntry
from ..file_undo import new_snapshot_id
from ..tree_walk import roots_of
from ..turn_diffs import EndedTurn, TurnDiffs
from ..watched_tree import PathChange, WatchedTree, now_ns
from ..working_copies import WorkingCopies

SCAN_WAIT_S = 1.0  # a call waits at most this long for a scan, then runs without it
MAX_PATHS = 2_000
_MAX_LISTED = 20
_REST_PER_SCAN = 9  # background scans take at most a tenth of the time
_MAX_REST_S = 5.0
_FINISH_S = 5.0
_WHILE_OPEN_S = 5.0  # between scans while a call is open: the most that a crash can lose


class _OpenCall:
    """An open call window and the agent process that made the call."""

    def __init__(self, window: CallWindow, agent: Agent) -> None:
        self.window, self.agent, self.epoch = window, agent, agent.epoch
        self.exact: tuple[FileEntry, ...] = ()  # paths that no scan covers, as they were before

    @property
    def is_over(self) -> bool:
        """True if its process is gone or the session that it left running has ended."""
        is_dead = self.agent.epoch != self.epoch or self.agent.gone.is_set()
        return is_dead or (self.window.detached and not self.agent.process.has_detached_command)


class ChangeWatcher:
    """One per run. `run` is its task; it scans nothing before a baseline or call is requested."""

    def __init__(self, running: RunContext, store: ContentStore, lock: trio.Lock) -> None:
        self._run, self._store = running, store
        self._lock = lock  # shared with `FileHistory`: no scan runs during an undo
        places = running.paths
        copies = WorkingCopies(places.file_copies)
        self.tree = WatchedTree(store, copies, places.uncopied)
        self._open: dict[str, _OpenCall] = {}
        self._ended_windows: list[CallWindow] = []
        self._turns: dict[str, str] = {}  # agent → the turn before whose first call a scan was made
        self._diffs = TurnDiffs(store, places.diffs, running.journal.redactor.redact)
        self._ended_turns: list[EndedTurn] = []  # turns whose diff the next scan records
        self._since_ns = 0
        self._exact: list[_OpenCall] = []
        self._reported_coverage: tuple[tuple[str, ...], int] = ((), 0)
        self._warned = False
        self._was_asked = False
        self._wake, self._urgent = trio.Event(), trio.Event()
        self._waiters: list[trio.Event] = []

    async def run(self) -> None:
        """Scan on request, and every few seconds while a call is open; never returns."""
        while True:
            with trio.move_on_after(_WHILE_OPEN_S if self._was_asked else math.inf):
                await self._wake.wait()
            if not self._wake.is_set() and not self._open:
                continue
            self._wake, self._urgent = trio.Event(), trio.Event()
            took_s = await self._scan()
            with trio.move_on_after(min(_REST_PER_SCAN * took_s, _MAX_REST_S)):
                await self._urgent.wait()

    def scan_baseline(self, request: RunRequest) -> None:
        """The run's agents may change files: take the baseline before any call waits for it."""
        if isinstance(request.sandbox, ReadOnly):
            return
        if self.tree.add_roots(roots_of(request.sandbox, request.cwd, request.add_dirs)):
            self._wake.set()

    async def call_starting(
        self, agent: Agent, request: WatchFiles
    ) -> FilesWatched | RequestRefused:
        """A call that may change files is about to run. Replies within about SCAN_WAIT_S."""
        if len(request.paths) > MAX_PATHS:
            return RequestRefused(message=f"more than {MAX_PATHS} paths at once")
        plan = agent.plan
        if plan.limits.isolation == "copy":
            return FilesWatched()  # it changes its own layer, and nothing here
        self._was_asked = True
        self._run.copies.note_call()
        is_new = self.tree.add_roots(roots_of(plan.limits.sandbox, plan.cwd, plan.add_dirs))
        if is_new or self._turns.get(agent.path) != request.turn_id:
            await self.request_scan()
            self._turns[agent.path] = request.turn_id
        self._diffs.begin(agent.path, request.turn_id)
        window = CallWindow(agent.path, request.turn_id, request.call_id, began_ns=now_ns())
        opened = self._open[request.call_id] = _OpenCall(window, agent)
        if self.tree.first_call_ns is None:
            self.tree.first_call_ns = window.began_ns
        if others := [path for path in request.paths if not self.tree.covers(path)]:
            opened.exact = await trio.to_thread.run_sync(self._store.entries_of, others)
        return FilesWatched()

    def call_ended(self, call_id: str, *, detached: bool) -> None:
        """The call is over; with `detached`, what it started runs on. Never waits."""
        found = self._open.get(call_id)
        if found is None:
            return
        found.window.detached = detached
        if not detached:
            self._close(call_id)
        self._wake.set()

    def turn_ended(self, agent: Agent, turn_id: str) -> None:
        """The turn is over: the next scan records its diff. Never waits."""
        if self._diffs.is_open(agent.path, turn_id):
            plan = agent.plan
            self._ended_turns.append(EndedTurn(agent.path, plan.agent_id, turn_id, plan.cwd))
            self._wake.set()

    def commands_ended(self) -> None:
        """A command that some agent's call had left running has ended."""
        self._wake.set()

    async def request_scan(self) -> bool:
        """Request a scan that begins now; False if it takes longer than SCAN_WAIT_S."""
        looked = trio.Event()
        self._waiters.append(looked)
        self._wake.set()
        self._urgent.set()
        with trio.move_on_after(SCAN_WAIT_S):
            await looked.wait()
        return looked.is_set()

    async def finish(self) -> None:
        """Make a last scan when nothing changes files any more; bounded in time.

        A scan that takes longer keeps the copies open; they end with the process.
        """
        for call_id in tuple(self._open):
            self._close(call_id)
        with trio.move_on_after(_FINISH_S, shield=True):
            if self._ended_windows or self._ended_turns:
                await self._scan()
            await self._run.journal.flush()
            async with self._lock:  # a scan may still run in its thread, for a short run the first
                self.tree.close()

    def _close(self, call_id: str) -> None:
        found = self._open.pop(call_id)
        self._run.copies.note_call()
        found.window.ended_ns = time.time_ns()  # not the coarse clock: file times may be finer
        self._ended_windows.append(found.window)
        if found.exact:
            self._exact.append(found)

    async def _scan(self) -> float:
        """Scan once and journal the changes. Returns the duration in seconds."""
        waiters, self._waiters = self._waiters, []
        for call_id in [name for name, one in self._open.items() if one.is_over]:
            self._close(call_id)
        exact, self._exact = self._exact, []
        ended, self._ended_turns = self._ended_turns, []
        began, began_ns = trio.current_time(), now_ns()
        try:
            async with self._lock:
                changes = await trio.to_thread.run_sync(self.tree.scan)
                # Only now: a call that began during the scan may have made some of the changes.
                windows = [*self._ended_windows, *(one.window for one in self._open.values())]
                work = partial(self._record_all, windows, changes, exact)
                records = await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:  # perhaps the disk is full; the run continues
            records = []
            self._warn_once(f"changes of files cannot be kept for an undo: {error}")
        for agent, record in records:
            self._run.note(record, agent=agent)
            self._diffs.add(agent, record)
        took_s = trio.current_time() - began
        self._record_coverage(took_s)
        self._since_ns = began_ns
        self._ended_windows = [
            one for one in self._ended_windows if (one.ended_ns or 0) >= began_ns
        ]
        for waiter in waiters:
            waiter.set()
        for turn in ended:
            await self._record_turn(turn)
        return trio.current_time() - began

    async def _record_turn(self, turn: EndedTurn) -> None:
        work = partial(self._diffs.make_diff, turn, self._diffs.take(turn), self.tree.uncovered)
        try:
            diff = await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:
            self._warn_once(f"what a turn changed in files cannot be told: {error}")
            return
        if diff is not None:
            self._run.note(diff, agent=turn.path, file=turn.agent_id)

    def _record_all(
        self,
        windows: Sequence[CallWindow],
        changes: Iterable[PathChange],
        exact: Iterable[_OpenCall],
    ) -> list[tuple[str, FilesChanged]]:
        shares = list(attribute_changes(windows, changes, since_ns=self._since_ns, now_ns=now_ns()))
        for one in exact:
            after = self._store.entries_of([entry.path for entry in one.exact])
            pairs = zip(one.exact, after, strict=True)
            real = tuple(
                PathChange(*pair, None) for pair in pairs if not pair[0].is_same_as(pair[1])
            )
            if real:
                window = one.window
                shares.append(
                    AttributedChanges(window.agent, window.turn_id, (window.call_id,), (), real)
                )
        return [(share.agent, self._record_of(share)) for share in shares]

    def _record_of(self, share: AttributedChanges) -> FilesChanged:
        before = [change.before for change in share.changes]
        after = [change.after for change in share.changes]
        return FilesChanged(
            change_id=new_snapshot_id(),
            before=self._store.write_manifest(before),
            after=self._store.write_manifest(after),
            files=sum("folder" not in (one.before.kind, one.after.kind) for one in share.changes),
            turn_id=share.turn_id,
            call_ids=share.call_ids,
            shared_with=share.shared_with,
        )

    def _record_coverage(self, took_s: float) -> None:
        uncovered = self.tree.uncovered
        coverage = self.tree.roots, len(uncovered)
        if coverage == self._reported_coverage:
            return
        self._reported_coverage = coverage
        self._run.note(
            WatchBegan(
                roots=self.tree.roots,
                files=self.tree.files,
                uncovered=uncovered[:_MAX_LISTED],
                uncovered_count=len(uncovered),
                took_s=round(took_s, 3),
            )
        )

    def _warn_once(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            self._run.note(Warned(message=message))
