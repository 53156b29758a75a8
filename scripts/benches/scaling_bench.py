"""The figures as functions of a size: of the turn's number, and of how many agents there are."""

import statistics
import time
from collections.abc import Iterator, Sequence

import core_bench
import peer_bench
from bench_harness import pss_bytes
from core_bench import FanOutRun
from many_agents_bench import bench_home, wait_spawned
from measurements import Curve, Row, smooth
from team_bench import burst_spans

_WINDOW = 10  # turns whose median is one point


def measure(*, quick: bool, peers: Sequence[peer_bench.Peer]) -> Iterator[Row | Curve]:
    """Every line of every plot, and what the last turn of a long run costs beside an early one."""
    yield from overhead(60 if quick else 1_000, peers)
    yield from memory((1, 8, 32) if quick else (1, 8, 32, 64, 128, 200))
    yield from spawn_times((1, 8, 32) if quick else (1, 2, 4, 8, 16, 32, 64, 128))


def overhead(turns: int, peers: Sequence[peer_bench.Peer]) -> Iterator[Row | Curve]:
    """What one tool turn costs, from the first to the last."""
    lines = {
        "swarm": core_bench.turn_gaps(turns, core_bench.FULL),
        "swarm, sandboxed": core_bench.turn_gaps(turns, []),
    }
    for peer in peers:
        for policy in peer.policies:
            name = f"{peer.title}, sandboxed" if policy == "with" else peer.title
            lines[name] = peer_bench.turn_gaps(peer, min(turns, 300), policy)
    for line, gaps in lines.items():
        yield Curve("overhead", line, smooth(list(enumerate(gaps)), _WINDOW))
        if line.startswith("swarm"):
            late = statistics.median(gaps[-50:]) / statistics.median(gaps[10:60])
            yield Row(f"turn {len(gaps)} beside turn 20: {line}", late, 1.05, "x")


def memory(sizes: tuple[int, ...]) -> Iterator[Curve]:
    """PSS of one of so many idle agents; what they share is divided among them."""
    for role in ("default", "explorer"):
        yield Curve("memory", role, tuple((size, weight(size, role)) for size in sizes))


def weight(agents: int, role: str) -> float:
    with (
        bench_home("hang", agents) as (environment, cwd),
        FanOutRun(environment, cwd, agents, role),
    ):
        pids = [int(record["pid"]) for record in wait_spawned(environment, agents)]
        time.sleep(1.0)
        return statistics.median(pss_bytes(pid) / 2**20 for pid in pids)


def spawn_times(sizes: tuple[int, ...]) -> Iterator[Curve]:
    """From the response that wants so many agents to the first request of the last of them."""
    points: list[tuple[float, float]] = []
    for size in sizes:
        spans, _ = burst_spans(size, 3)
        points.append((size, statistics.median(map(max, spans))))
    yield Curve("births", "all of them", tuple(points))
    yield Curve("births", "each", tuple((size, span / size) for size, span in points))
