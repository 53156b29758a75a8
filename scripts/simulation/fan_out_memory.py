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
from simulated_model import SimulatedModel, gateway_app_opener
from simulated_run import SilentDisplay, deterministic, empty_folder, places_in
from simulated_scenario import RUN_ID, NetworkFaults, SimulatedScenario
from simulated_world import SimulatedWorld
from trio.testing import MockClock

from swarm.mailbox.protocol.control import AnyFeed, Recorded
from swarm.mailbox.protocol.records import FanOutItemEnded, RunCompleted
from swarm.supervisor.request.run_request import FanOut, RunLifetime, RunRequest, TeamLimits
from swarm.supervisor.run import run_to_end

_PACKAGES = ("/supervisor/", "/mailbox/", "/roles/")
_SLOTS = 8


class MemorySample(NamedTuple):
    """Memory when so many items had ended; `by_line` only of the rooms a supervisor runs."""

    items: int
    package_bytes: int
    by_line: dict[str, int]


class FanOutMemory(NamedTuple):
    """What came of it: the bytes that each item past the first look left behind."""

    status: str
    items: int
    seconds: float
    samples: list[MemorySample]

    @property
    def bytes_an_item(self) -> float:
        first, last = self.samples[0], self.samples[-1]
        return (last.package_bytes - first.package_bytes) / (last.items - first.items)

    def growing_lines(self, most: int = 12) -> list[tuple[str, int]]:
        """Where the bytes that stayed were asked for, the greatest first."""
        first, last = self.samples[0].by_line, self.samples[-1].by_line
        grown = {line: size - first.get(line, 0) for line, size in last.items()}
        return sorted(grown.items(), key=lambda one: -one[1])[:most]


class _MemorySampler(SilentDisplay):
    """A view that samples memory after a third of the items, and near the end."""

    def __init__(self, items: int) -> None:
        self._ended, self._at = 0, {items // 3, items * 2 // 3, items - _SLOTS}
        self.samples: list[MemorySample] = []

    def on_feed(self, feed: AnyFeed) -> None:
        if isinstance(feed, Recorded) and isinstance(feed.record.body, FanOutItemEnded):
            self._ended += 1
            if self._ended in self._at:
                self.samples.append(_sample_memory(self._ended))


def _sample_memory(items: int) -> MemorySample:
    gc.collect()
    by_line: dict[str, int] = defaultdict(int)
    for stat in tracemalloc.take_snapshot().statistics("lineno"):
        frame = stat.traceback[0]
        if any(room in frame.filename for room in _PACKAGES):
            by_line[f"{Path(frame.filename).name}:{frame.lineno}"] += stat.size
    return MemorySample(items, sum(by_line.values()), dict(by_line))


def measure_fan_out_memory(items: int) -> FanOutMemory:
    """One run with so many items, and nothing that befalls it."""
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    view, began = _MemorySampler(items), time.perf_counter()
    tracemalloc.start()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="swarm-sim-", dir=base) as name,
            deterministic(items),
        ):
            clock = MockClock(autojump_threshold=0)
            completed = trio.run(_run_fan_out, items, Path(name), view, clock=clock)
    finally:
        tracemalloc.stop()
    return FanOutMemory(completed.status, items, time.perf_counter() - began, view.samples)


async def _run_fan_out(items: int, folder: Path, view: _MemorySampler) -> RunCompleted:
    story = SimulatedScenario(
        seed=0, parts={}, items=(), slots=_SLOTS, reviewer="nobody", tokens=None, faults=(),
        network_faults=NetworkFaults(), model_faults=0.0, start_faults=0.0,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        world = SimulatedWorld("crowd", nursery)
        world.keeps_ended = False
        world.open_gateway_app = gateway_app_opener(SimulatedModel(story, world), story, world)
        request = RunRequest(
            cwd=empty_folder(),
            prompt="Join.",
            run_id=RUN_ID,
            fan_out=FanOut(items=tuple(f"item {n}" for n in range(items)), prompt="{item}"),
            team=TeamLimits(max_agents=_SLOTS + 1),
            environment={"TZ": "Etc/UTC"},
            lifetime=RunLifetime(linger_s=0.0),
        )
        completed = await run_to_end(
            request, view, None, places_in(folder), around=world.dependencies()
        )
        nursery.cancel_scope.cancel()
    return msgspec.structs.replace(completed, result=None)
