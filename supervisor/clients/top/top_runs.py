"""The runs of this person: which live, what their feeds say, and the newest that have ended.

A live run is followed by its feed, of which only records are read: what streams changes no row. A
supervisor that was killed says nothing, so whether runs live is looked at now and then.
"""

import os
from collections.abc import Callable

import msgspec
import trio

from swarm.mailbox.base.errors import MalformedMessage, SwarmError
from swarm.mailbox.delivery.feed import FeedReader, open_feed_reader
from swarm.mailbox.protocol.control import Recorded, RunView, decode_feed
from swarm.mailbox.protocol.records import RunCompleted

from ...parts.copies.held_work import describe_unmerged
from ...runs.paths import RunPaths, UserPaths, paths_of_run
from ...runs.run_list import RunSummary, summarize
from ...runs.run_metadata import is_run_alive
from ...views.run_state import RunState
from ..cli.base.control_client import fetch_run_view
from .top_rows import TopRow, row_of

SCAN_S = 1.0
_LOOK_AT_ALL_EVERY = 10  # scans: an old run may have been resumed
_JOIN_LIMIT_S = 5.0
_STREAMED = b"passed"  # the tag of what streams, at the beginning of a message
_MOST_LIVE = 200  # runs that are followed at once


class FollowedRun:
    """One live run. `view` is None until its supervisor has answered."""

    def __init__(self, here: RunPaths, summary: RunSummary) -> None:
        self.here = here
        self.summary = summary
        self.scope = trio.CancelScope()
        self._state: RunState | None = None
        self._view: RunView | None = None

    @property
    def view(self) -> RunView | None:
        """The run as it is now; made anew only after a record."""
        if self._view is None and self._state is not None:
            self._view = self._state.view()
        return self._view

    async def follow(self, changed: Callable[[], None]) -> None:
        """Until the run ends, or the scope is cancelled. Never raises for what the run does."""
        with self.scope:
            try:
                async with open_feed_reader(self.here.feed_endpoint) as reader:
                    await self._read(reader, changed)
            except (SwarmError, MalformedMessage, OSError):
                return  # it ends, or is of another version: its summary says so

    async def _read(self, reader: FeedReader, changed: Callable[[], None]) -> None:
        number = -1
        with trio.move_on_after(_JOIN_LIMIT_S):
            number = await reader.wait_joined()
        await self._load(changed)
        while True:
            arrived, body = await reader.receive()
            is_gap, number = arrived != number + 1, arrived
            if is_gap:
                await self._load(changed)
            if _STREAMED in body[:24]:
                continue
            try:
                feed = decode_feed(body)
            except msgspec.DecodeError:
                continue  # from a newer supervisor
            assert self._state is not None
            self._state.apply(feed)
            self._view = None
            changed()
            if isinstance(feed, Recorded) and isinstance(feed.record.body, RunCompleted):
                return

    async def _load(self, changed: Callable[[], None]) -> None:
        self._state, self._view = RunState(await fetch_run_view(self.here)), None
        changed()


class TopRuns:
    """All rows. `watch` keeps them true.

    Args:
        places: Of this person.
        ended: How many of the newest ended runs are rows.
        changed: Called when rows may have changed; cheap.
    """

    def __init__(self, places: UserPaths, *, ended: int, changed: Callable[[], None]) -> None:
        self._places = places
        self._most_ended = ended
        self._changed = changed
        self.live: dict[str, FollowedRun] = {}
        self._ended: dict[str, RunSummary] = {}  # by id; read once, until the run lives again
        self._shown_ended: tuple[str, ...] = ()
        self._seen: frozenset[str] = frozenset()
        self._scans = 0

    def rows(self) -> list[TopRow]:
        live = [row_of(one.summary, one.view) for one in self.live.values()]
        ended = [self._ended[run] for run in self._shown_ended if run not in self.live]
        return [*live, *(row_of(run, None) for run in ended)]

    async def watch(self) -> None:
        """Look for runs and follow those that live, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self.scan(nursery)
                await trio.sleep(SCAN_S)

    async def scan(self, nursery: trio.Nursery | None) -> None:
        """Look once. Without a nursery live runs are asked for their view and not followed."""
        names = await trio.to_thread.run_sync(self._names)
        is_whole = self._scans % _LOOK_AT_ALL_EVERY == 0
        self._scans += 1
        asked = names if is_whole else [one for one in names if one not in self._seen]
        self._seen = frozenset(names)
        for run in [*self.live]:
            if not is_run_alive(self.live[run].here):
                self.live.pop(run).scope.cancel()
                self._ended.pop(run, None)
                self._changed()
        for run in asked:
            here = paths_of_run(self._places, run)
            if run not in self.live and len(self.live) < _MOST_LIVE and is_run_alive(here):
                self._begin(run, here, nursery)
        await self._read_ended(names)

    def _begin(self, run: str, here: RunPaths, nursery: trio.Nursery | None) -> None:
        self.live[run] = followed = FollowedRun(here, summarize(here))
        if nursery is not None:
            nursery.start_soon(followed.follow, self._changed)
        self._changed()

    def _names(self) -> list[str]:
        """Ids, newest first: they begin with their time."""
        try:
            with os.scandir(self._places.runs) as found:
                names = [one.name for one in found if one.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        return sorted(names, reverse=True)

    async def _read_ended(self, names: list[str]) -> None:
        found: list[str] = []
        for run in names:
            if len(found) >= self._most_ended:
                break
            if run in self.live:
                continue
            if run not in self._ended:
                self._ended[run] = await trio.to_thread.run_sync(_summary, self._places, run)
                self._changed()
            if not self._ended[run].archived:
                found.append(run)
        if tuple(found) != self._shown_ended:
            self._shown_ended = tuple(found)
            self._changed()


def _summary(places: UserPaths, run: str) -> RunSummary:
    here = paths_of_run(places, run)
    return msgspec.structs.replace(summarize(here), unmerged=describe_unmerged(here))


async def read_rows_once(places: UserPaths, *, ended: int) -> list[TopRow]:
    """The rows as they are now."""
    runs = TopRuns(places, ended=ended, changed=_nothing)
    await runs.scan(None)
    views: dict[str, RunView] = {}

    async def look(run: str, here: RunPaths) -> None:
        try:
            views[run] = await fetch_run_view(here, timeout_s=_JOIN_LIMIT_S)
        except SwarmError:
            return

    async with trio.open_nursery() as nursery:
        for run, followed in runs.live.items():
            nursery.start_soon(look, run, followed.here)
    live = [row_of(one.summary, views.get(run)) for run, one in runs.live.items()]
    return [*live, *(row for row in runs.rows() if row.run_id not in runs.live)]


def _nothing() -> None:
    """Nobody looks."""
