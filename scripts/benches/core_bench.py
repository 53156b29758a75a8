"""The spine's figures: a tool turn, start-up, streaming; those of a crowd are in `crowd`."""

import itertools
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench_harness import SWARM, cpu_seconds, journal_of, model_server, run_swarm, swarm_home
from measurements import Row

FULL = ["-s", "danger-full-access"]


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row of the table, the slow ones last."""
    turns, rounds = (60, 1) if quick else (210, 5)
    yield from help_time()
    yield from start_time(5 if quick else 15)
    yield from tool_turns(turns, rounds, ("without sandbox", FULL), 12, "23 ms mini-swe-agent")
    yield from tool_turns(turns, rounds, ("with sandbox", []), 18, "86 ms Codex")
    costs = [statistics.median(turn_gaps(turns, [], "touch")[5:]) for _ in range(rounds)]
    yield Row.of("one tool turn that writes a file, with sandbox", costs, 18, "ms")
    import many_agents_bench  # late: it is built on this module

    yield from many_agents_bench.measure(quick=quick)
    yield from streaming(10 if quick else 50)


def help_time() -> Iterator[Row]:
    times = []
    for _ in range(10):
        began = time.monotonic()
        subprocess.run([*SWARM, "--help"], capture_output=True, check=True)
        times.append((time.monotonic() - began) * 1000)
    yield Row("swarm --help", statistics.median(times), 150, "ms")


def one_start(*, is_first: bool = False) -> tuple[float, dict[str, Any]]:
    """Milliseconds from the command to its first request, and what the server saw. `is_first`: as
    in an environment that was just installed, where no module is compiled yet.
    """
    with (
        model_server("answer") as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
        tempfile.TemporaryDirectory() as compiled,
    ):
        fresh = {"PYTHONPYCACHEPREFIX": compiled} if is_first else {}
        began = time.monotonic()
        run_swarm(environment | fresh, "run", "-p", "hello", "--plain", cwd=cwd)
        seen = server.seen()
        return (seen["first_byte"] - began) * 1000, seen


def start_time(rounds: int) -> Iterator[Row]:
    times, sizes, texts = [], [], []
    for _ in range(rounds):
        took_ms, seen = one_start()
        times.append(took_ms)
        sizes.append(seen["requests"][0]["bytes"] / 1024)
        texts.append(seen["first_texts"] / 1024)
    yield Row("start of swarm run to first byte of first request",
              statistics.median(times), 250, "ms", "129 ms Codex")  # fmt: skip
    first = [one_start(is_first=True)[0] for _ in range(max(1, rounds // 5))]
    yield Row.of("  the same the first time, when nothing is compiled", first, None, "ms")
    size, floor = statistics.median(sizes), statistics.median(texts)
    yield Row("first request with all tools", size, 15, "KB", "45 KB Codex", floor=floor)


def tool_turns(
    turns: int, rounds: int, how: tuple[str, list[str]], limit: float, peer: str
) -> Iterator[Row]:
    """A turn is the time from one response's end to the next request's arrival. What a late one
    costs beside an early one is the median of several runs: machines change pace within one.
    """
    name, flags = how
    runs = [turn_gaps(turns, flags) for _ in range(rounds)]
    costs = [statistics.median(gaps[5:]) for gaps in runs]
    yield Row.of(f"one tool turn running `true`, {name}", costs, limit, "ms", peer)
    late = [statistics.median(gaps[-20:]) / statistics.median(gaps[10:30]) for gaps in runs]
    yield Row.of(f"turn {turns} beside turn 20, {name}", late, 1.1, "x", "2.1 mini-swe-agent")


def turn_gaps(
    turns: int, flags: list[str], command: str = "true", *,
    home_files: Mapping[str, str] = {}, mode: str = "tools",
) -> list[float]:  # fmt: skip
    """Milliseconds from each response's end to the next request's arrival. `home_files`: further
    files beside the configuration, by name. `mode`: of the model server.
    """
    with (
        model_server(mode, turns, command) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        for name, text in home_files.items():
            path = Path(environment["SWARM_HOME"]) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        done = run_swarm(environment, "run", "-p", "go", "--plain", *flags, cwd=cwd)
        requests = server.seen()["requests"]
    if len(requests) != turns + 1:
        raise RuntimeError(f"{len(requests)} requests for {turns} turns: {done.stderr[-800:]}")
    return [
        (after["began"] - before["answered"]) * 1000
        for before, after in itertools.pairwise(requests)
    ]


def fan_out_task(environment: dict[str, str], *, concurrency: int, role: str = "explorer") -> Path:
    """A task file with one agent a folder."""
    task = Path(environment["SWARM_HOME"]) / "fan.md"
    task.write_text(
        f"---\nmax_agents: {concurrency + 1}\nfan_out:\n  each: {{dirs: '*'}}\n  role: {role}\n"
        f"  prompt: Look at {{item}}.\n  concurrency: {concurrency}\n---\nJoin.\n"
    )
    return task


def streaming(agents: int) -> Iterator[Row]:
    """CPU of the supervisor while every agent streams 30 chunks a second."""
    with (
        model_server("stream") as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        for number in range(agents):
            (Path(cwd) / f"item{number:04}").mkdir()
        with FanOutRun(environment, cwd, agents) as run:
            deadline = time.monotonic() + 60
            while len(spawn_records(environment)) < agents and time.monotonic() < deadline:
                time.sleep(0.2)
            time.sleep(2.0)
            before, began = cpu_seconds(run.pid), time.monotonic()
            time.sleep(5.0)
            share = (cpu_seconds(run.pid) - before) / (time.monotonic() - began) * 100
            yield Row(f"supervisor while {agents} agents stream 30 chunks/s", share, 50, "%")


class FanOutRun:
    """A run with one agent a folder, all at once; ended hard with the block."""

    def __init__(
        self, environment: dict[str, str], cwd: str, agents: int, role: str = "explorer"
    ) -> None:
        self.environment, self.cwd, self.agents, self.role = environment, cwd, agents, role

    def __enter__(self) -> "subprocess.Popen[bytes]":
        task = fan_out_task(self.environment, concurrency=self.agents, role=self.role)
        self.run = subprocess.Popen(
            [*SWARM, "run", str(task), "--json"],
            env=self.environment, cwd=self.cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return self.run

    def __exit__(self, *_: object) -> None:
        self.run.kill()
        self.run.wait()
        time.sleep(1.0)


def spawn_records(environment: dict[str, str]) -> list[dict[str, float]]:
    """The spawn records so far; none while the run has no folder yet."""
    try:
        records = list(journal_of(environment))
    except (FileNotFoundError, IndexError, json.JSONDecodeError):
        return []
    return [record["body"] for record in records if record["body"]["type"] == "agent_spawned"]
