"""Figures of a crowd: what a start costs, what an idle agent weighs, how fast a run is gone."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench_harness import model_server, pss_bytes, run_swarm, swarm_home
from core_bench import FanOutRun, fan_out_task, spawn_records
from measurements import Row

ROLES = ("default", "explorer")
_READY_LIMIT_S, _GONE_LIMIT_S = 120, 30


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row; each role on its own."""
    for role in ROLES:
        yield from spawn_time(10 if quick else 50, role)
    for role in ROLES:
        yield from weight(20 if quick else 200, role)
    yield from kill_supervisor(20 if quick else 200)


def spawn_time(agents: int, role: str) -> Iterator[Row]:
    """Agents one after another, each answered at once."""
    with bench_home("answer", agents) as (environment, cwd):
        task = fan_out_task(environment, concurrency=1, role=role)
        run_swarm(environment, "run", str(task), "--plain", cwd=cwd)
        spawn_ms = statistics.median(one["spawn_s"] for one in spawn_records(environment)) * 1000
        yield Row(f"warm spawn, request to Hello, {role}", spawn_ms, 10, "ms")


def weight(agents: int, role: str) -> Iterator[Row]:
    """Many agents whose requests hang: their memory, their launchers', and what starts cost."""
    with (
        bench_home("hang", agents) as (environment, cwd),
        FanOutRun(environment, cwd, agents, role) as run,
    ):
        spawned = wait_spawned(environment, agents)
        spent_ms = spent(run.pid) / len(spawned)
        pids = [int(record["pid"]) for record in spawned]
        own_ms = [spent(pid) for pid in pids]  # now: reading their memory keeps them busy
        time.sleep(1.0)
        sizes = [pss_bytes(pid) / 2**20 for pid in pids]
        beside = [pss_bytes(child) / 2**20 for pid in pids for child in children(pid)]
        what = f"one of {len(pids)} idle agents, {role}"
        yield Row(f"memory of {what} (PSS)", statistics.median(sizes), 6, "MB")
        yield Row("  its sleeping launcher (PSS)", statistics.median(beside), 1, "MB")
        yield Row("  its processor time so far", statistics.median(own_ms), 10, "ms")
        yield Row("  the supervisor's processor time for it", spent_ms, 10, "ms")


def kill_supervisor(agents: int) -> Iterator[Row]:
    """The supervisor is killed: when is the last process of the run gone?"""
    for what, share in (("being born", 0.4), ("idle", 1.0)):
        with (
            bench_home("hang", agents) as (environment, cwd),
            FanOutRun(environment, cwd, agents, "default") as run,
        ):
            wait_spawned(environment, int(agents * share))
            time.sleep(0 if share < 1 else 1.0)
            folder = next((Path(environment["SWARM_HOME"]) / "state" / "runs").iterdir())
            run.kill()
            began = time.monotonic()
            while living(folder.name[-8:]) and time.monotonic() < began + _GONE_LIMIT_S:
                time.sleep(0.02)
            took = time.monotonic() - began
            yield Row(f"all gone after its SIGKILL, {agents} agents {what}", took, 1, "s")


@contextmanager
def bench_home(mode: str, agents: int) -> Iterator[tuple[dict[str, str], str]]:
    """A home whose model is a server of this mode, and a folder with one folder an agent."""
    with (
        model_server(mode) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        for number in range(agents):
            (Path(cwd) / f"item{number:04}").mkdir()
        yield environment, cwd


def wait_spawned(environment: dict[str, str], agents: int) -> list[dict[str, float]]:
    deadline = time.monotonic() + _READY_LIMIT_S
    while len(found := spawn_records(environment)) < agents and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def spent(pid: int) -> float:
    """Milliseconds of processor time, to the nanosecond, of all threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6


def living(run: str) -> list[int]:
    """Every process whose title names the run, zombies left out: they have no title."""
    found = []
    for entry in Path("/proc").glob("[1-9]*"):
        try:
            title = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"swarm: ") and run.encode() in title:
            found.append(int(entry.name))
    return found
