"""Who changed which file: a look before a turn's first call that may, and one after each.

Rule guarded: no call runs before the files were seen as they were, for WAIT_S at most; and what a
look finds is journaled with its agent and turn. Looks run beside everything else, so what a turn
changed in all is told soon after its end, and no turn waits for it.
"""

import math
import time
from collections.abc import Iterable, Sequence
from functools import partial

import trio

from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.limits import ReadOnly
from swarm.mailbox.protocol.records import FilesChanged, WatchBegan
from swarm.mailbox.protocol.requests import FilesWatched, RequestRefused, WatchFiles

from ..agents.live_agent import LiveAgent
from ..run_context import RunContext
from ..run_request import RunRequest
from .attribution import AttributedChanges, CallWindow, attribute_changes
from .content_store import ContentStore, FileEntry
from .file_undo import new_snapshot_id
from .tree_walk import roots_of
from .turn_diffs import EndedTurn, TurnDiffs
from .watched_tree import PathChange, WatchedTree, now_ns
from .working_copies import WorkingCopies

SCAN_WAIT_S = 1.0  # for a look, before a call goes on all the same
_MAX_PATHS = 2_000
_MAX_LISTED = 20
_REST_PER_SCAN = 9  # looks that nobody waits for take a tenth of the time at most
_MAX_REST_S = 5.0
_FINISH_S = 5.0
_WHILE_OPEN_S = 5.0  # between looks while a call goes on: what a crash then loses is no more


class _OpenCall:
    """A window with the life whose call it is."""

    def __init__(self, window: CallWindow, life: LiveAgent) -> None:
        self.window, self.live_agent, self.epoch = window, life, life.epoch
        self.exact: tuple[FileEntry, ...] = ()  # paths that no look covers, as they were before

    @property
    def is_over(self) -> bool:
        """Its process is gone, or the session that it left behind has ended."""
        life = self.live_agent
        is_dead = life.epoch != self.epoch or life.gone.is_set()
        return is_dead or (self.window.detached and not life.has_detached_command)


class ChangeWatcher:
    """One a run. `run` lives as long as the run; nothing is looked at before `expect`."""

    def __init__(self, running: RunContext, store: ContentStore, lock: trio.Lock) -> None:
        self._run, self._store = running, store
        self._lock = lock  # the files' own: nobody looks while an undo puts back
        places = running.paths
        closed = (str(places.folder.parent), str(places.sockets.parent))
        self.tree = WatchedTree(store, WorkingCopies(places.file_copies), closed)
        self._open: dict[str, _OpenCall] = {}
        self._ended_windows: list[CallWindow] = []
        self._turns: dict[str, str] = {}  # agent → the turn before whose first call was looked
        self._diffs = TurnDiffs(store, places.diffs, running.journal.redactor.redact)
        self._ended_turns: list[EndedTurn] = []  # turns to be told by the next look
        self._since_ns = 0
        self._exact: list[_OpenCall] = []
        self._reported_coverage: tuple[tuple[str, ...], int] = ((), 0)
        self._warned = False
        self._was_asked = False
        self._wake, self._urgent = trio.Event(), trio.Event()
        self._waiters: list[trio.Event] = []

    async def run(self) -> None:
        """Look when it is wanted, and now and then while a call goes on; for ever."""
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
        """The run's agents may change files: take the baseline before anybody waits for it."""
        if isinstance(request.sandbox, ReadOnly):
            return
        if self.tree.add_roots(roots_of(request.sandbox, request.cwd, request.add_dirs)):
            self._wake.set()

    async def call_starting(
        self, agent: LiveAgent, wish: WatchFiles
    ) -> FilesWatched | RequestRefused:
        """A call that may change files is about to run. Answers within WAIT_S or little more."""
        if len(wish.paths) > _MAX_PATHS:
            return RequestRefused(message=f"more than {_MAX_PATHS} paths at once")
        self._was_asked = True
        plan = agent.plan
        is_new = self.tree.add_roots(roots_of(plan.limits.sandbox, plan.cwd, plan.add_dirs))
        if is_new or self._turns.get(agent.path) != wish.turn_id:
            await self.request_scan()
            self._turns[agent.path] = wish.turn_id
        self._diffs.begin(agent.path, wish.turn_id)
        window = CallWindow(agent.path, wish.turn_id, wish.call_id, began_ns=now_ns())
        opened = self._open[wish.call_id] = _OpenCall(window, agent)
        if self.tree.first_call_ns is None:
            self.tree.first_call_ns = window.began_ns
        if others := [path for path in wish.paths if not self.tree.covers(path)]:
            opened.exact = await trio.to_thread.run_sync(self._store.entries_of, others)
        return FilesWatched()

    def call_ended(self, call_id: str, *, detached: bool) -> None:
        """The call is over; with `detached` what it started goes on. Never waits."""
        found = self._open.get(call_id)
        if found is None:
            return
        found.window.detached = detached
        if not detached:
            self._close(call_id)
        self._wake.set()

    def turn_ended(self, agent: LiveAgent, turn_id: str) -> None:
        """The turn is over: what it changed is told by a look that begins now. Never waits."""
        if self._diffs.is_open(agent.path, turn_id):
            plan = agent.plan
            self._ended_turns.append(EndedTurn(agent.path, plan.agent_id, turn_id, plan.cwd))
            self._wake.set()

    def commands_ended(self) -> None:
        """What some agent's calls had left behind has ended."""
        self._wake.set()

    async def request_scan(self) -> bool:
        """Have a look that begins now; False if it took longer than WAIT_S and goes on."""
        looked = trio.Event()
        self._waiters.append(looked)
        self._wake.set()
        self._urgent.set()
        with trio.move_on_after(SCAN_WAIT_S):
            await looked.wait()
        return looked.is_set()

    async def finish(self) -> None:
        """A last look, when nothing changes files any more; bounded."""
        for call_id in tuple(self._open):
            self._close(call_id)
        with trio.move_on_after(_FINISH_S, shield=True):
            if self._ended_windows or self._ended_turns:
                await self._scan()
            await self._run.journal.flush()
        self.tree.close()

    def _close(self, call_id: str) -> None:
        found = self._open.pop(call_id)
        found.window.ended_ns = time.time_ns()  # not the coarse clock: a file's may be finer
        self._ended_windows.append(found.window)
        if found.exact:
            self._exact.append(found)

    async def _scan(self) -> float:
        """One look, and what it found into the journal. Returns what it took, in seconds."""
        waiters, self._waiters = self._waiters, []
        for call_id in [name for name, one in self._open.items() if one.is_over]:
            self._close(call_id)
        exact, self._exact = self._exact, []
        ended, self._ended_turns = self._ended_turns, []
        began, began_ns = trio.current_time(), now_ns()
        try:
            async with self._lock:
                changes = await trio.to_thread.run_sync(self.tree.scan)
                # Only now: a call that began during the look may have made some of them.
                windows = [*self._ended_windows, *(one.window for one in self._open.values())]
                work = partial(self._record_all, windows, changes, exact)
                records = await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:  # the disk is full, perhaps; the run goes on
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
            told = await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:
            self._warn_once(f"what a turn changed in files cannot be told: {error}")
            return
        if told is not None:
            self._run.note(told, agent=turn.path, file=turn.agent_id)

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
        told = self.tree.roots, len(uncovered)
        if told == self._reported_coverage:
            return
        self._reported_coverage = told
        self._run.note(
            WatchBegan(
                roots=self.tree.roots,
                files=self.tree.files,
                uncovered=uncovered[:_MAX_LISTED],
                uncovered_count=len(uncovered),
                took_s=round(took_s, 3),
            )
        )

    def _warn_once(self, words: str) -> None:
        if not self._warned:
            self._warned = True
            self._run.note(Warned(message=words))
