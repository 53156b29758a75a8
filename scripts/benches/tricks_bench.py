"""What a trick below the language gains: the same work with it and without it.

A trick stays only while a figure that a user can feel pays for it. `SWITCHES` names those that are
there. The whole journey is measured: one tool turn in the sandbox of an agent alone; 32 spawns to
the last first request, and the tool turns of these 32 beside each other; and memory and processor
time of the whole tree while they wait for their model. They have worked by then: idle agents would
hide what the work itself writes to memory.
"""

import itertools
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench_harness import SWARM, newest_run, swarm_home, team_server
from core_bench import turn_gaps
from measurements import Row
from process_watch import journal_files, tree_cpu_seconds, tree_memory

SWITCHES = ("prewarmed_sandbox",)  # features, each on by default
_AGENTS, _TOOLS = 32, 3
_QUIET_S, _QUIET_CPU_S, _START_LIMIT_S = 1.0, 0.05, 120.0


class RestingTeam(NamedTuple):
    """The whole tree of a run whose agents have worked and wait for their model.

    `spawn_ms`: from the response that asks for all agents to the last one's first request.
    `turn_ms`: the median tool turn of the agents, which work side by side.
    """

    spawn_ms: float
    turn_ms: float
    pss_mib: float
    uss_mib: float
    cpu_s: float


def measure(*, quick: bool) -> Iterator[Row]:
    """For each switch the figures with and without it, in turns: a busy machine slows both."""
    rounds, turns = (1, 30) if quick else (4, 100)
    for switch in SWITCHES:
        ways: dict[str, list[str]] = {"with": [], "without": ["--disable", switch]}
        gaps: dict[str, list[float]] = {way: [] for way in ways}
        teams: dict[str, list[RestingTeam]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, flags in ways.items():
                gaps[way].append(statistics.median(turn_gaps(turns, flags)[5:]))
                teams[way].append(resting_team(flags))
        for way in ways:
            yield Row.of(f"{way} {switch}: one sandboxed tool turn", gaps[way], None, "ms")
            yield from _team_rows(teams[way])


def _team_rows(teams: list[RestingTeam]) -> Iterator[Row]:
    what = f"{_AGENTS} agents that worked"
    spawns = [one.spawn_ms for one in teams]
    yield Row.of(f"  {_AGENTS} spawns in one go, to the last first request", spawns, None, "ms")
    yield Row.of(f"  {what}: one tool turn", [one.turn_ms for one in teams], None, "ms")
    yield Row.of(f"  {what}: memory (PSS)", [one.pss_mib for one in teams], None, "MiB")
    yield Row.of(f"  {what}: own pages (USS)", [one.uss_mib for one in teams], None, "MiB")
    yield Row.of(f"  {what}: processor time", [one.cpu_s for one in teams], None, "s")


def resting_team(flags: list[str]) -> RestingTeam:
    """Start the agents, let each run its commands in the sandbox, and look when all is quiet."""
    with (
        team_server("workers_at_rest", _AGENTS, _TOOLS) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        bounds = ["--max-agents", str(_AGENTS + 1), "--max-spawns", str(_AGENTS)]
        argv = [*SWARM, "run", "-p", "bench:root <root> Begin.", "--plain", *bounds, *flags]
        said = Path(cwd).with_suffix(".log")
        with said.open("wb") as out:
            run = subprocess.Popen(
                argv, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            _wait_at_rest(run, environment)
            pss, uss = tree_memory(run.pid)
            cpu_s = tree_cpu_seconds(run.pid)
            spawn_ms, turn_ms = _journey_times(server.seen()["requests"])
            return RestingTeam(spawn_ms, turn_ms, pss / 2**20, uss / 2**20, cpu_s)
        finally:
            run.terminate()
            run.wait(60)
            said.unlink()


def _journey_times(requests: list[dict[str, Any]]) -> tuple[float, float]:
    """Milliseconds of the spawns, and of the median tool turn between two answered requests."""
    asked = min(one["answered"] for one in requests if one["kind"] == "root")
    of: dict[str, list[dict[str, Any]]] = {}
    for one in sorted(requests, key=lambda one: one["began"]):
        if one["kind"] == "leaf":
            of.setdefault(one["name"], []).append(one)
    gaps = [
        after["began"] - before["answered"]
        for mine in of.values()
        for before, after in itertools.pairwise(mine)
    ]
    last = max(mine[0]["began"] for mine in of.values())
    return (last - asked) * 1000, statistics.median(gaps) * 1000


def _wait_at_rest(run: "subprocess.Popen[bytes]", environment: dict[str, str]) -> None:
    """Until all agents have run their commands and the tree has been quiet for a while.

    An unused prewarmed sandbox ends after 5 seconds, and is part of what is measured.
    """
    until = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < until and run.poll() is None:
        before = tree_cpu_seconds(run.pid)
        time.sleep(_QUIET_S)
        is_quiet = tree_cpu_seconds(run.pid) - before <= _QUIET_CPU_S
        if is_quiet and _calls_ended(environment) >= _AGENTS * (1 + _TOOLS):
            return
    raise RuntimeError(f"the agents did not come to rest within {_START_LIMIT_S:.0f} s")


def _calls_ended(environment: dict[str, str]) -> int:
    files = journal_files(newest_run(environment))
    return sum(path.read_bytes().count(b'"type":"call_ended"') for path in files)
