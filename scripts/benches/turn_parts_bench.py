"""Which process has a processor when during one tool turn: each part has its line.

A turn is the time from one response's end to the next request's arrival, as in `core_bench`. Parts
may run beside each other; in the rest of the time a disk, a wake-up or another program is waited
for.
"""

import itertools
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench_harness import SWARM, model_server, swarm_home
from core_bench import FULL
from measurements import Row
from process_watch import process_tree
from spawn_timeline import Spans, kind_of, read_spans, title_of, watched_by_perf

_TURNS, _WARM = 400, 10
_TITLES_AFTER_S, _LIMIT_S = 0.6, 60.0  # the run has started by then, and goes on for a second
_OTHERS = "the command and what confines it"


def measure(*, quick: bool) -> Iterator[Row]:
    """The parts with the sandbox and without it. Few turns would be over too soon to be seen."""
    for name, flags in (("with sandbox", []), ("without sandbox", FULL)):
        windows, by_kind = record_turns(_TURNS, flags)
        took = [end - begin for begin, end in windows]
        yield Row.of(f"one tool turn {name}, watched by perf", took, None, "ms")
        everything = [span for spans in by_kind.values() for span in spans]
        for kind, spans in sorted(by_kind.items()):
            part = statistics.mean(covered(window, spans) for window in windows)
            yield Row(f"  {kind} on a processor", part, None, "ms")
        idle = [end - begin - covered((begin, end), everything) for begin, end in windows]
        yield Row("  none of them on a processor", statistics.mean(idle), None, "ms")


def record_turns(turns: int, flags: list[str]) -> tuple[Spans, dict[str, Spans]]:
    """When each turn was, and when each kind of process had a processor, in ms."""
    with (
        model_server("tools", turns) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        record = Path(cwd).with_suffix(".switches")
        argv = [*SWARM, "run", "-p", "go", "--plain", *flags]
        with watched_by_perf(record):
            run = subprocess.Popen(
                argv, env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            time.sleep(_TITLES_AFTER_S)
            known = {pid: title_of(pid) for pid in process_tree(run.pid)}
            run.wait(_LIMIT_S)
        requests = server.seen()["requests"]
        zero = requests[0]["began"]
        windows = [
            ((one["answered"] - zero) * 1000, (after["began"] - zero) * 1000)
            for one, after in itertools.pairwise(requests)
        ]
        spans = read_spans(record, zero)
        record.unlink()
    lasting = {pid: kind_of(title) for pid, title in known.items() if title.startswith("swarm: ")}
    lasting[run.pid] = "the supervisor"
    lasting[server.pid] = "the model server"
    by_kind: dict[str, Spans] = {}
    for pid, found in spans.items():
        if pid in lasting or is_short(found):
            by_kind.setdefault(lasting.get(pid, _OTHERS), []).extend(found)
    return windows[_WARM:], by_kind


def is_short(spans: Spans) -> bool:
    """True for a process that came and went within a turn or two; others are somebody else's."""
    return spans[-1][1] - spans[0][0] < 50.0


def covered(window: tuple[float, float], spans: Spans) -> float:
    """How much of the window at least one of the spans covers."""
    begin, end = window
    inside = sorted((max(a, begin), min(b, end)) for a, b in spans if a < end and b > begin)
    total, reached = 0.0, begin
    for a, b in inside:
        total += max(0.0, b - max(a, reached))
        reached = max(reached, b)
    return total
