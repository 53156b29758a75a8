"""`scripts/simulate --items N`: a fan-out of N items over 8 slots, and what of it stays in memory.

The agents end as they come, so whatever the supervisor's code holds on to shows as growth between
an early and a late look. Bytes are Python's own (tracemalloc), by the line that asked for them.
"""

import gc
import os
import tempfile
import time
import tracemalloc
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio
from mind import Mind, house_opener
from play import RUN_ID, Quiet, empty_folder, places_in, repeatable
from story import Story, Wire
from trio.testing import MockClock
from world import World

from swarm.mailbox.protocol.control import AnyFeed, Recorded
from swarm.mailbox.protocol.records import FanOutItemEnded, RunCompleted
from swarm.supervisor.request import FanOut, RunRequest
from swarm.supervisor.supervisor import run_to_its_end

_ROOMS = ("/supervisor/", "/mailbox/", "/roles/")
_SLOTS = 8


class Look(NamedTuple):
    """Memory when so many items had ended; `by_line` only of the rooms a supervisor runs."""

    items: int
    room_bytes: int
    by_line: dict[str, int]


class Crowd(NamedTuple):
    """What came of it: the bytes that each item past the first look left behind."""

    status: str
    items: int
    seconds: float
    looks: list[Look]

    @property
    def bytes_an_item(self) -> float:
        first, last = self.looks[0], self.looks[-1]
        return (last.room_bytes - first.room_bytes) / (last.items - first.items)

    def growing_lines(self, most: int = 12) -> list[tuple[str, int]]:
        """Where the bytes that stayed were asked for, the greatest first."""
        first, last = self.looks[0].by_line, self.looks[-1].by_line
        grown = {line: size - first.get(line, 0) for line, size in last.items()}
        return sorted(grown.items(), key=lambda one: -one[1])[:most]


class _Looking(Quiet):
    """A view that looks at memory after a third of the items, and near the end."""

    def __init__(self, items: int) -> None:
        self._ended, self._at = 0, {items // 3, items * 2 // 3, items - _SLOTS}
        self.looks: list[Look] = []

    def on_feed(self, feed: AnyFeed) -> None:
        if isinstance(feed, Recorded) and isinstance(feed.record.body, FanOutItemEnded):
            self._ended += 1
            if self._ended in self._at:
                self.looks.append(_look(self._ended))


def _look(items: int) -> Look:
    gc.collect()
    by_line: dict[str, int] = defaultdict(int)
    for stat in tracemalloc.take_snapshot().statistics("lineno"):
        frame = stat.traceback[0]
        if any(room in frame.filename for room in _ROOMS):
            by_line[f"{Path(frame.filename).name}:{frame.lineno}"] += stat.size
    return Look(items, sum(by_line.values()), dict(by_line))


def play_crowd(items: int) -> Crowd:
    """One run with so many items, and nothing that befalls it."""
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    view, began = _Looking(items), time.perf_counter()
    tracemalloc.start()
    try:
        with tempfile.TemporaryDirectory(prefix="swarm-sim-", dir=base) as name, repeatable(items):
            clock = MockClock(autojump_threshold=0)
            completed = trio.run(_play, items, Path(name), view, clock=clock)
    finally:
        tracemalloc.stop()
    return Crowd(completed.status, items, time.perf_counter() - began, view.looks)


async def _play(items: int, folder: Path, view: _Looking) -> RunCompleted:
    story = Story(
        seed=0, parts={}, items=(), slots=_SLOTS, reviewer="nobody", tokens=None, faults=(),
        wire=Wire(), model_faults=0.0, start_faults=0.0,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        world = World("crowd", nursery)
        world.keeps_ended = False
        world.open_house = house_opener(Mind(story, world), story, world)
        request = RunRequest(
            cwd=empty_folder(),
            prompt="Join.",
            run_id=RUN_ID,
            fan_out=FanOut(items=tuple(f"item {n}" for n in range(items)), prompt="{item}"),
            max_agents=_SLOTS + 1,
            environment={"TZ": "Etc/UTC"},
            linger_s=0.0,
        )
        completed = await run_to_its_end(
            request, view, None, places_in(folder), around=world.surroundings()
        )
        nursery.cancel_scope.cancel()
    return msgspec.structs.replace(completed, result=None)
