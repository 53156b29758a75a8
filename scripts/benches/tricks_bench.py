"""What a trick below the language gains: the same work with it and without it.

A trick stays only while a figure that a user can feel pays for it. `SWITCHES` names those that are
there. The whole journey is measured: one tool turn in the sandbox of an agent alone; 32 spawns to
the last first request, and the tool turns of these 32 beside each other; and memory and processor
time of the whole tree while they wait for their model. They have worked by then: idle agents would
hide what the work itself writes to memory.
"""

import itertools
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

from core_bench import turn_gaps
from measurements import Row
from process_watch import tree_cpu_seconds, tree_memory
from resting_workers import resting_workers

SWITCHES = ("prewarmed_sandbox",)  # features, each on by default
_AGENTS, _TOOLS = 32, 3
_START_LIMIT_S = 120.0


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
    with resting_workers(_AGENTS, _TOOLS, flags) as team:
        team.wait(_START_LIMIT_S)
        pss, uss = tree_memory(team.run.pid)
        cpu_s = tree_cpu_seconds(team.run.pid)
        spawn_ms, turn_ms = _journey_times(team.server.seen()["requests"])
        return RestingTeam(spawn_ms, turn_ms, pss / 2**20, uss / 2**20, cpu_s)


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
