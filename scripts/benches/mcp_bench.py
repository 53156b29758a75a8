"""Figures of MCP: many agents share one server; what a call costs beside the SDK's own client.

The same server answers both. Added time is compared where nothing else runs: one agent, one call
after another. Under load, the calls that the server saw are compared with those of the journal.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench_harness import HERE, journal_of, run_swarm, swarm_home, team_server
from measurements import Row
from process_watch import RunSamples, watch_run

_SERVER = HERE / "mcp_bench_server.py"
_CONFIG = """\
[mcp_servers.bench]
command = "{python}"
args = ["{server}", "{file}"]
writable_roots = ["{folder}"]
supports_parallel_tool_calls = true
"""
_PROMPT = "bench:root <root> Begin."


class McpRun(NamedTuple):
    """A run whose agents called the server."""

    durations_ms: list[float]  # of calls that succeeded, as the agents measured them
    seen: Counter[str]  # what the server saw
    journaled: int
    processes: int  # of the server
    wall_s: float
    watched: RunSamples


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row."""
    calls = 60 if quick else 200
    own = sdk_call_ms(calls)
    alone = run_agents(1, calls).durations_ms
    yield Row.of("a call by the SDK's own client", own, None, "ms")
    yield Row.of("the same call by an agent, through the hub", alone, None, "ms")
    added = statistics.median(alone) - statistics.median(own)
    yield Row("  added time of a call", added, 3.0, "ms")
    yield from shared_server(1 if quick else 3)


def shared_server(runs: int) -> Iterator[Row]:
    """32 agents with 20 calls each, to one server."""
    agents, each = 32, 20
    walls = [run_agents(agents, each) for _ in range(runs)]
    seen = run_agents(agents, each, sample_s=0.05)
    done = [*walls, seen]
    yield Row.of(f"{agents} agents, {each} calls each: whole run", [one.wall_s for one in walls],
                 None, "s")  # fmt: skip
    loaded = [time for one in walls for time in one.durations_ms]
    yield Row.of("  one call meanwhile", loaded, None, "ms")
    yield Row("  processes of the server", max(one.processes for one in done), 1, "")
    doubled = sum(n - 1 for one in done for n in one.seen.values())
    missing = sum(agents * each - len(one.seen) for one in done)
    unheard = sum(agents * each - one.journaled for one in done)
    yield Row("  calls that the server saw twice", doubled, 0, "")
    yield Row("  calls that it never saw", missing, 0, "")
    yield Row("  calls without a result in the journal", unheard, 0, "")
    peak = seen.watched.peak_pss / 2**20
    how = f"  peak memory of the whole tree (PSS, {seen.watched.tree_samples} looks)"
    yield Row(how, peak, None, "MiB")
    yield Row("  processes at that moment", seen.watched.most_processes, None, "")


def run_agents(agents: int, calls: int, *, sample_s: float = 0.0) -> McpRun:
    """One run of the command to its end."""
    with (
        team_server("mcp_callers", agents, calls) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
        tempfile.TemporaryDirectory() as counted,
    ):
        file = Path(counted) / "counted"
        server_file = shutil.copy(_SERVER, counted)  # its sandbox sees this folder
        with (Path(environment["SWARM_HOME"]) / "config.toml").open("a") as config:
            config.write(_CONFIG.format(
                python=sys.executable, server=server_file, file=file, folder=counted
            ))  # fmt: skip
        bounds = ("--max-agents", str(agents + 1), "--max-spawns", "1000")
        arguments = ["run", "-p", _PROMPT, "--plain", "-s", "workspace-write", *bounds]
        began, watched = time.monotonic(), RunSamples()
        if sample_s:
            watched = watch_run(environment, arguments, cwd=cwd, every_s=sample_s)
        else:
            done = run_swarm(environment, *arguments, cwd=cwd)
            if done.returncode:
                raise RuntimeError(f"the run ended with {done.returncode}: {done.stderr[-800:]}")
        wall_s = time.monotonic() - began
        lines = file.read_text().splitlines()
        durations = list(_durations_ms(environment))
        return McpRun(
            durations_ms=durations,
            seen=Counter(one for one in lines if one.startswith("call ")),
            journaled=len(durations),
            processes=sum(one.startswith("start ") for one in lines),
            wall_s=wall_s,
            watched=watched,
        )


def _durations_ms(environment: dict[str, str]) -> Iterator[float]:
    for record in journal_of(environment):
        body: dict[str, Any] = record["body"]
        is_call = body["type"] == "call_ended" and body["tool"].startswith("mcp__bench__")
        if is_call and body["status"] == "completed":
            yield body["duration_s"] * 1000


def sdk_call_ms(calls: int) -> list[float]:
    """The SDK's own client calls the same server, one call after another."""
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    spans: list[float] = []

    async def call_all(file: str) -> None:
        server = StdioServerParameters(command=sys.executable, args=[str(_SERVER), file])
        async with stdio_client(server) as (reader, writer), ClientSession(reader, writer) as one:
            await one.initialize()
            await one.list_tools()
            for number in range(calls):
                began = time.perf_counter()
                await one.call_tool("count", {"call": f"sdk-{number}"})
                spans.append((time.perf_counter() - began) * 1000)

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(call_all, str(Path(folder) / "counted"), backend="trio")
    return spans
