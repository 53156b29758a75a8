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

from ..agents import LiveAgent
from ..request import RunRequest
from ..running import Running
from .pack import Pack
from .store import Entry, Store
from .tree import Change, Tree, now_ns
from .turn_diffs import Ended, TurnDiffs
from .undoing import new_snapshot_id
from .walk import roots_of
from .windows import Share, Window, share_out

WAIT_S = 1.0  # for a look, before a call goes on all the same
_MOST_PATHS = 2_000
_MOST_TOLD = 20
_REST_PER_LOOK = 9  # looks that nobody waits for take a tenth of the time at most
_MOST_REST_S = 5.0
_FINISH_S = 5.0
_WHILE_OPEN_S = 5.0  # between looks while a call goes on: what a crash then loses is no more


class _Open:
    """A window with the life whose call it is."""

    def __init__(self, window: Window, life: LiveAgent) -> None:
        self.window, self.life, self.epoch = window, life, life.epoch
        self.exact: tuple[Entry, ...] = ()  # paths that no look covers, as they were before

    @property
    def is_over(self) -> bool:
        """Its process is gone, or the session that it left behind has ended."""
        life = self.life
        is_dead = life.epoch != self.epoch or life.gone.is_set()
        return is_dead or (self.window.detached and not life.left_command)


class Watching:
    """One a run. `run` lives as long as the run; nothing is looked at before `expect`."""

    def __init__(self, running: Running, store: Store, lock: trio.Lock) -> None:
        self._run, self._store = running, store
        self._lock = lock  # the files' own: nobody looks while an undo puts back
        places = running.places
        closed = (str(places.folder.parent), str(places.sockets.parent))
        self.tree = Tree(store, Pack(places.kept), closed)
        self._open: dict[str, _Open] = {}
        self._over: list[Window] = []
        self._turns: dict[str, str] = {}  # agent → the turn before whose first call was looked
        self._diffs = TurnDiffs(store, places.diffs, running.journal.redactor.clean)
        self._ended: list[Ended] = []  # turns to be told by the next look
        self._since_ns = 0
        self._exact: list[_Open] = []
        self._told: tuple[tuple[str, ...], int] = ((), 0)
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
            took_s = await self._look()
            with trio.move_on_after(min(_REST_PER_LOOK * took_s, _MOST_REST_S)):
                await self._urgent.wait()

    def expect(self, request: RunRequest) -> None:
        """The run's agents may change files: take the baseline before anybody waits for it."""
        if isinstance(request.sandbox, ReadOnly):
            return
        if self.tree.add_roots(roots_of(request.sandbox, request.cwd, request.add_dirs)):
            self._wake.set()

    async def begin(self, agent: LiveAgent, wish: WatchFiles) -> FilesWatched | RequestRefused:
        """A call that may change files is about to run. Answers within WAIT_S or little more."""
        if len(wish.paths) > _MOST_PATHS:
            return RequestRefused(message=f"more than {_MOST_PATHS} paths at once")
        self._was_asked = True
        plan = agent.plan
        is_new = self.tree.add_roots(roots_of(plan.limits.sandbox, plan.cwd, plan.add_dirs))
        if is_new or self._turns.get(agent.path) != wish.turn_id:
            await self.look()
            self._turns[agent.path] = wish.turn_id
        self._diffs.begin(agent.path, wish.turn_id)
        window = Window(agent.path, wish.turn_id, wish.call_id, began_ns=now_ns())
        opened = self._open[wish.call_id] = _Open(window, agent)
        if self.tree.opened_ns is None:
            self.tree.opened_ns = window.began_ns
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
            self._ended.append(Ended(agent.path, plan.agent_id, turn_id, plan.cwd))
            self._wake.set()

    def commands_over(self) -> None:
        """What some agent's calls had left behind has ended."""
        self._wake.set()

    async def look(self) -> bool:
        """Have a look that begins now; False if it took longer than WAIT_S and goes on."""
        looked = trio.Event()
        self._waiters.append(looked)
        self._wake.set()
        self._urgent.set()
        with trio.move_on_after(WAIT_S):
            await looked.wait()
        return looked.is_set()

    async def finish(self) -> None:
        """A last look, when nothing changes files any more; bounded."""
        for call_id in tuple(self._open):
            self._close(call_id)
        with trio.move_on_after(_FINISH_S, shield=True):
            if self._over or self._ended:
                await self._look()
            await self._run.journal.settle()
        self.tree.close()

    def _close(self, call_id: str) -> None:
        found = self._open.pop(call_id)
        found.window.ended_ns = time.time_ns()  # not the coarse clock: a file's may be finer
        self._over.append(found.window)
        if found.exact:
            self._exact.append(found)

    async def _look(self) -> float:
        """One look, and what it found into the journal. Returns what it took, in seconds."""
        waiters, self._waiters = self._waiters, []
        for call_id in [name for name, one in self._open.items() if one.is_over]:
            self._close(call_id)
        exact, self._exact = self._exact, []
        ended, self._ended = self._ended, []
        began, began_ns = trio.current_time(), now_ns()
        try:
            async with self._lock:
                changes = await trio.to_thread.run_sync(self.tree.scan)
                # Only now: a call that began during the look may have made some of them.
                windows = [*self._over, *(one.window for one in self._open.values())]
                work = partial(self._record_all, windows, changes, exact)
                records = await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:  # the disk is full, perhaps; the run goes on
            records = []
            self._tell_once(f"changes of files cannot be kept for an undo: {error}")
        for agent, record in records:
            self._run.note(record, agent=agent)
            self._diffs.add(agent, record)
        took_s = trio.current_time() - began
        self._tell_coverage(took_s)
        self._since_ns = began_ns
        self._over = [one for one in self._over if (one.ended_ns or 0) >= began_ns]
        for waiter in waiters:
            waiter.set()
        for turn in ended:
            await self._tell_turn(turn)
        return trio.current_time() - began

    async def _tell_turn(self, turn: Ended) -> None:
        work = partial(self._diffs.tell, turn, self._diffs.take(turn), self.tree.uncovered)
        try:
            told = await trio.to_thread.run_sync(work)
        except (OSError, ValueError) as error:
            self._tell_once(f"what a turn changed in files cannot be told: {error}")
            return
        if told is not None:
            self._run.note(told, agent=turn.path, file=turn.agent_id)

    def _record_all(
        self, windows: Sequence[Window], changes: Iterable[Change], exact: Iterable[_Open]
    ) -> list[tuple[str, FilesChanged]]:
        shares = list(share_out(windows, changes, since_ns=self._since_ns, now_ns=now_ns()))
        for one in exact:
            after = self._store.entries_of([entry.path for entry in one.exact])
            pairs = zip(one.exact, after, strict=True)
            real = tuple(Change(*pair, None) for pair in pairs if not pair[0].is_same_as(pair[1]))
            if real:
                window = one.window
                shares.append(Share(window.agent, window.turn_id, (window.call_id,), (), real))
        return [(share.agent, self._record_of(share)) for share in shares]

    def _record_of(self, share: Share) -> FilesChanged:
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

    def _tell_coverage(self, took_s: float) -> None:
        uncovered = self.tree.uncovered
        told = self.tree.roots, len(uncovered)
        if told == self._told:
            return
        self._told = told
        self._run.note(
            WatchBegan(
                roots=self.tree.roots,
                files=self.tree.files,
                uncovered=uncovered[:_MOST_TOLD],
                uncovered_count=len(uncovered),
                took_s=round(took_s, 3),
            )
        )

    def _tell_once(self, words: str) -> None:
        if not self._warned:
            self._warned = True
            self._run.note(Warned(message=words))
