"""Eight agents that each run a test suite: with leases and without, beside the suites alone.

The suite is a program that takes processor time and memory. Its optimum is measured without swarm:
as many at once as there are processors. Memory is that of the whole tree (PSS), looked at in a run
of its own: the looks cost processor time.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from bench_harness import journal_of, run_swarm, swarm_home
from measurements import Row
from process_watch import watch_run

_AGENTS = 8
_MEMORY_MIB = 150
_CHEAP_LOOKS = 20_000
_SUITE = f"""\
#!{sys.executable}
import sys, time
pages = bytearray({_MEMORY_MIB} << 20)
for at in range(0, len(pages), 4096):
    pages[at] = 1
while time.process_time() < float(sys.argv[1]):
    sum(range(10_000))
"""
_TASK = """\
---
fan_out:
  role: worker
  each: {lines: "seq AGENTS"}
  prompt: "Run the suite for {item}."
  concurrency: AGENTS
---
Sum up.
"""
_CONFIG = """\
[leases]
enabled = {enabled}
[leases.commands]
"./suite" = "test"
"""


class SuiteRun(NamedTuple):
    """One run of all agents."""

    wall_s: float
    peak_mib: float
    waits_s: list[float]
    at_once: int  # suites that ran at the same time, at most


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row."""
    seconds, rounds = (1.5, 1) if quick else (4.0, 3)
    optimum = [suites_alone(seconds) for _ in range(rounds)]
    best_s = statistics.median(optimum)
    yield Row.of(f"{_AGENTS} suites without swarm, one a processor", optimum, None, "s")
    for enabled in (True, False):
        runs = [run_agents(seconds, enabled=enabled, is_watched=False) for _ in range(rounds)]
        how = "with leases" if enabled else "without leases"
        bound = 1.1 * best_s if enabled and not quick else None
        yield Row.of(
            f"{_AGENTS} agents, a suite each, {how}", [one.wall_s for one in runs], bound, "s"
        )
        watched = run_agents(seconds, enabled=enabled, is_watched=True)
        yield Row("  peak memory of the whole tree (PSS)", watched.peak_mib, None, "MiB")
        most = max(one.at_once for one in [*runs, watched])
        allowed = float(_processors()) if enabled else None
        yield Row("  suites at once", most, allowed, "")
        if enabled:
            longest = max(wait for one in runs for wait in one.waits_s)
            yield Row("  longest wait for a turn", longest, max(one.wall_s for one in runs), "s")
            served = min(len(one.waits_s) for one in runs)
            yield Row("  agents that were not served", _AGENTS - served, 0, "")
    yield Row("what a command that is not heavy pays", light_command_us(), 50.0, "µs")


def suites_alone(seconds: float) -> float:
    """Wall time of all suites, as many at once as there are processors."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_processors()) as pool:
        suite = write_suite(Path(folder))
        began = time.monotonic()
        argv = [str(suite), str(seconds)]
        list(pool.map(lambda _: subprocess.run(argv, check=True), range(_AGENTS)))
        return time.monotonic() - began


def run_agents(seconds: float, *, enabled: bool, is_watched: bool) -> SuiteRun:
    """One run of the command to its end; the peak is 0 if nobody watches."""
    with swarm_home("http://127.0.0.1:9") as environment, tempfile.TemporaryDirectory() as cwd:
        home, work = Path(environment["SWARM_HOME"]), Path(cwd)
        (home / "config.toml").write_text(_CONFIG.format(enabled=str(enabled).lower()))
        write_suite(work)
        call = {"name": "exec_command",
                "arguments": {"cmd": f"./suite {seconds}", "yield_time_ms": 30_000}}  # fmt: skip
        turns = [
            {"agent": "/root/*", "calls": [call]},
            {"agent": "/root/*", "text": "done"},
            {"agent": "/root", "text": "all done"},
        ]
        script, task = home / "script.yaml", home / "task.md"
        script.write_text(yaml.safe_dump({"turns": turns}))
        task.write_text(_TASK.replace("AGENTS", str(_AGENTS)))
        arguments = ["run", str(task), f"--provider=scripted:{script}", "--plain",
                     "-s", "danger-full-access", "--max-agents", str(_AGENTS + 1)]  # fmt: skip
        began, peak = time.monotonic(), 0
        if is_watched:
            peak = watch_run(environment, arguments, cwd=cwd, every_s=0.05).peak_pss
        else:
            run_swarm(environment, *arguments, cwd=cwd).check_returncode()
        wall_s = time.monotonic() - began
        records = list(journal_of(environment))
        ends = [one["body"] for one in records if one["body"]["type"] == "heavy_command_ended"]
        return SuiteRun(
            wall_s=wall_s,
            peak_mib=peak / 2**20,
            waits_s=[one.get("waited_s", 0.0) for one in ends],
            at_once=most_at_once(records, ends),
        )


def most_at_once(records: list[dict[str, Any]], ends: list[dict[str, Any]]) -> int:
    """How many suites ran at the same time; without leases nothing tells it but their calls."""
    spans: list[tuple[float, float]] = []
    for one in records:
        body = one["body"]
        if body["type"] == "heavy_command_ended":
            spans.append((one["ts"] - body.get("seconds", 0.0), one["ts"]))
        elif not ends and body["type"] == "call_ended":
            spans.append((one["ts"] - body.get("duration_s", 0.0), one["ts"]))
    slack_s = 0.05  # between a command's end and its record
    return max(
        (sum(first <= at < last - slack_s for first, last in spans) for at, _ in spans), default=0
    )


def light_command_us() -> float:
    """Microseconds that an agent takes to see that a command is not heavy."""
    from swarm.mailbox.parts.leases.lease_messages import LeaseRules
    from swarm.worker.parts.leases.heavy_commands import HeavyCommands

    table = HeavyCommands(LeaseRules(enabled=True))
    argv = ("/bin/bash", "-c", "sed -n 1,120p src/main.rs && rg -n 'fn main' src | head -20")
    began = time.process_time()
    for _ in range(_CHEAP_LOOKS):
        table.find(argv)
    return (time.process_time() - began) / _CHEAP_LOOKS * 1e6


def write_suite(folder: Path) -> Path:
    """The program that stands for a test suite."""
    suite = folder / "suite"
    suite.write_text(_SUITE)
    suite.chmod(0o755)
    return suite


def _processors() -> int:
    return len(os.sched_getaffinity(0))
