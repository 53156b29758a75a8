"""The team's figures: spawns, whole runs, coming and going, mail. Every agent is a real process.

A group a kind of figure, so that the slow ones can be measured alone: `spawn`, `run`, `cycles`,
`fan`, `mail`. All but `mail` are runs of the command against a model server without latency. After
each group the journal is read: every process that held a slot must have ended, and none twice.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench_harness import run_swarm, swarm_home, team_server
from measurements import Row
from process_watch import IdlePoint, RunSamples, watch_run

GROUPS = ("spawn", "run", "cycles", "fan", "mail")
PEERS = "2.0 Claude Code, 3.4 Codex, 16 opencode"
PEERS_MEMORY = "221-787 MiB peers, one process"
_PROMPT = "bench:root <root> Begin."
_PARENTS = 2  # the root and the head that started the leaves
_FREE: Sequence[str] = ["-s", "danger-full-access", "--max-spawns", "1000000"]


def measure(groups: tuple[str, ...], cycles: int, *, quick: bool) -> Iterator[Row]:
    """The rows of these groups; all of them when none is named."""
    wanted = groups or GROUPS
    if "spawn" in wanted:
        for agents, rounds in ((1, 20), (8, 6), (32, 3), (128, 2)):
            few = quick and agents > 1  # of one, even twenty take a second
            yield from bursts(agents, max(1, rounds // 4) if few else rounds)
    if "run" in wanted:
        yield from whole_run(2 if quick else 5)
    if "cycles" in wanted:
        yield from spawn_cycles(cycles)
    if "fan" in wanted:
        yield from fan_out(cycles)
    if "mail" in wanted:
        from mail_bench import mail_latency

        yield from mail_latency(seconds=3 if quick else 10)


def run_team(
    story: str,
    *numbers: int,
    max_agents: int,
    sample_s: float = 0.0,
    leaves_at_rest: int = 0,
    flags: Sequence[str] = _FREE,
    cwd: str = "",
) -> "TeamRun":
    """One run of the command to its end, in `cwd` or an empty folder; with `leaves_at_rest` looked
    at while so many live.
    """
    with (
        team_server(story, *numbers) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as empty,
    ):
        cwd = cwd or empty
        bounds = ("--max-agents", str(max_agents), "--max-spawns", "100000")
        arguments = ["run", "-p", _PROMPT, "--plain", *flags, *bounds]
        began = time.monotonic()
        if sample_s:
            rest = IdlePoint(server.url, leaves_at_rest, _PARENTS) if leaves_at_rest else None
            watched = watch_run(environment, arguments, cwd=cwd, every_s=sample_s, rest=rest)
        else:
            done = run_swarm(environment, *arguments, cwd=cwd)
            if done.returncode:
                raise RuntimeError(f"the run ended with {done.returncode}: {done.stderr[-800:]}")
            watched = RunSamples()
        wall_s = time.monotonic() - began
        return TeamRun(wall_s, server.seen()["requests"], watched, leaked_slots(environment))


class TeamRun:
    """What a run came to."""

    def __init__(
        self, wall_s: float, requests: list[dict[str, Any]], watched: RunSamples, slots: list[str]
    ) -> None:
        self.wall_s, self.requests, self.watched, self.slots = wall_s, requests, watched, slots


def leaked_slots(environment: dict[str, str]) -> list[str]:
    """Agents that still held a slot when the run was over, and ends without a beginning."""
    from bench_harness import journal_records

    live: set[tuple[str, int]] = set()
    wrong: list[str] = []
    for record in journal_records(environment, "run"):
        body = record["body"]
        life = (body.get("agent_id", ""), body.get("epoch", 1))
        if body["type"] == "agent_spawned":
            live.add(life)
        elif body["type"] == "process_ended":
            if life not in live:
                wrong.append(record["agent"])
            live.discard(life)
    return [*wrong, *(agent for agent, _ in live)]


def bursts(agents: int, rounds: int) -> Iterator[Row]:
    """From the response that wants them to the first request of each; they live side by side."""
    spans, ended = burst_spans(agents, rounds)
    if agents == 1:
        yield Row.of("one spawn to its first request", [one for (one,) in spans], 20, "ms")
    else:
        last = [max(one) for one in spans]
        each = f"{statistics.median(last) / agents:.3g} ms each"
        yield Row.of(
            f"{agents} spawns in one go, to the last first request", last, None, "ms", each
        )
    yield slots_row(ended)


def burst_spans(
    agents: int, rounds: int, *, flags: Sequence[str] = _FREE, cwd: str = ""
) -> tuple[list[list[float]], TeamRun]:
    """Milliseconds to the first request of each agent, a list a round; and the run."""
    ended = run_team("bursts", agents, rounds, max_agents=2 * agents + 1, flags=flags, cwd=cwd)
    wanted = {one["number"]: one for one in ended.requests if one["kind"] == "root"}
    first = {one["name"]: one for one in ended.requests if one["kind"] == "leaf"}
    spans = [
        [
            (first[f"r{turn}_{index}"]["began"] - wanted[2 * turn]["answered"]) * 1000
            for index in range(agents)
        ]
        for turn in range(rounds)
    ]
    return spans, ended


def slots_row(ended: TeamRun) -> Row:
    return Row("  slots without a process at the end", len(ended.slots), 0, "")


def whole_run(runs: int) -> Iterator[Row]:
    """32 sub-agents with three tool calls each; time and memory are measured in runs apart."""
    walls = [run_team("workers", 32, 3, max_agents=33).wall_s for _ in range(runs)]
    yield Row.of("32 sub-agents, three tool calls each: whole run", walls, 1.5, "s", PEERS)
    seen = [run_team("workers", 32, 3, max_agents=33, sample_s=0.02) for _ in range(runs)]
    peaks = [one.watched.peak_pss / 2**20 for one in seen]
    how = f"  peak memory of its whole tree (PSS of all, {seen[0].watched.tree_samples} looks)"
    yield Row.of(how, peaks, 250, "MiB", PEERS_MEMORY)
    most = [float(one.watched.most_processes) for one in seen]
    yield Row.of("  processes at that moment", most, None, "")
    yield slots_row(seen[-1])


def spawn_cycles(cycles: int) -> Iterator[Row]:
    """Agents that start agents that end: after a warm-up the supervisor holds what it held."""
    leaves, side = 96, 8
    heads = max(1, round(cycles / leaves))
    ended = run_team(
        "cycles", heads, leaves, side, max_agents=side + 4, sample_s=1.0, leaves_at_rest=side
    )
    yield from leak_rows(ended, f"{heads * (leaves + 1)} spawn-finish cycles")
    yield slots_row(ended)


def leak_rows(ended: TeamRun, what: str) -> Iterator[Row]:
    """What grew in the supervisor between the warm-up and the end."""
    each_ms = (ended.wall_s - ended.watched.held_s) * 1000 / max(ended.watched.agents, 1)
    yield Row(f"{what}: time of each", each_ms, None, "ms")
    grown = ended.watched.growth()
    warm = (
        f"after {grown.warm_agents} to the end, {grown.looks} looks; {grown.warm_mib:.1f} MiB then"
    )
    yield Row("  supervisor memory grown (own pages)", grown.own_mib, 1.0, "MB", warm)
    yield Row("  the same for every 10,000 more, by the trend", grown.trend_mib, 1.0, "MB")
    yield Row("  file descriptors grown", grown.descriptors, 0, "")
    yield Row("  sockets grown", grown.sockets, 0, "")
    yield Row("  threads grown", grown.threads, 0, "")


def fan_out(cycles: int) -> Iterator[Row]:
    """As many items as cycles, with eight slots for them."""
    with (
        team_server("cycles", 0, 0, 1) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        task = Path(cwd) / "fan.md"
        task.write_text(
            "---\nmax_agents: 9\nfan_out:\n"
            f"  each: {{lines: 'seq {cycles}'}}\n"
            "  prompt: 'Look at {item}.'\n  concurrency: 8\n---\nJoin.\n"
        )
        began = time.monotonic()
        wanted = ["run", str(task), "--plain"]
        rest = IdlePoint(server.url, leaves=8, beside=0)
        watched = watch_run(environment, wanted, cwd=cwd, every_s=1.0, rest=rest)
        ended = TeamRun(time.monotonic() - began, [], watched, leaked_slots(environment))
    yield from leak_rows(ended, f"fan-out of {cycles} items, 8 slots")
    yield slots_row(ended)
