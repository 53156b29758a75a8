"""`scripts/bench soak`: a long run with real processes; does anything grow that should not?

One root has as many turns as it starts agents: each turn runs a command and starts one agent, whose
answer wakes the root for the next. Looked at once a second: own pages (RssAnon) and descriptors of
the run's lasting processes. Read from the journal and the server afterwards: times of each turn.
A row is the median of the last quarter; its limit and its floor come from the first quarter.
"""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench_harness import SWARM, journal_of, newest_run, server_of, swarm_home
from measurements import Curve, Row, smooth
from process_watch import process_tree
from team_bench import leaked_slots

_PROMPT = "bench:root <root> Begin."
_WINDOW = '[models."bench"]\nprovider = "bench"\ncontext_window = 20000000\n'
_LONG_LIVED = ("supervisor", "gateway", "fork-server", "root agent")
_SPAWN_DESCRIPTORS = 4  # descriptors that a start under way has open
_SMOOTHED = 20
_WARM = 0.1  # of the run: libraries load, pools and caches fill


class SoakSeries(NamedTuple):
    """One figure over the run. `growth` is what its ratio may be; None: it may grow."""

    name: str
    unit: str
    points: list[tuple[int, float]]  # (turn, value)
    growth: float | None = None
    tolerance: float = 0.0  # in the unit: less than that is no growth

    def quarter(self, which: int) -> float:
        """Median of a quarter, 0 to 3, of what comes after the warm-up."""
        points = self.points[int(len(self.points) * _WARM) :] or self.points
        size = max(1, len(points) // 4)
        part = points[:size] if which == 0 else points[-size:] if which == 3 else (
            points[which * size : (which + 1) * size]
        )  # fmt: skip
        return statistics.median(value for _, value in part)


def measure(turns: int) -> Iterator[Row | Curve]:
    """A row a figure: the last quarter, bounded by what the first allows; and the curves."""
    series, facts = soak(turns)
    yield Row(
        f"soak: turns of one root, {facts['agents']} agents beside it", facts["turns"], None, ""
    )
    yield Row("  slots without a process at the end", facts["slots_left"], 0, "")
    for one in series:
        first, last = one.quarter(0), one.quarter(3)
        limit = None if one.growth is None else max(first * one.growth, first + one.tolerance)
        note = "grows with its history" if one.growth is None else ""
        words = f"  {one.name}, last quarter"
        yield Row(words, last, limit, one.unit, note, floor=first)
        if one.unit == "MiB":
            yield Curve("soak_memory", one.name.partition(":")[0], tuple(one.points))
        elif one.unit == "ms":
            yield Curve("soak_latency", one.name, smooth(one.points, _SMOOTHED))


def soak(turns: int) -> tuple[list[SoakSeries], dict[str, Any]]:
    """One run of so many turns and agents."""
    with (
        server_of("soak_model_server.py", str(turns)) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        Path(environment["SWARM_HOME"], "models.toml").write_text(_WINDOW)
        began = time.monotonic()
        looks = _watch(environment, cwd)
        wall_s = time.monotonic() - began
        requests = server.seen()["requests"]
        records = sorted(journal_of(environment), key=lambda record: record["seq"])
        left = leaked_slots(environment)
    facts = {
        "turns": sum(one["body"]["type"] == "turn_completed" and one["agent"] == "/root"
                     for one in records if one.get("agent")),
        "agents": len({one["body"]["agent_id"] for one in records
                       if one["body"]["type"] == "agent_spawned"}) - 1,
        "wall_s": round(wall_s, 1),
        "records": len(records),
        "slots_left": len(left),
        "load": float(Path("/proc/loadavg").read_text().split()[0]),
    }  # fmt: skip
    if facts["agents"] < turns:
        raise RuntimeError(f"the run ended early: {facts}")
    return [*_from_looks(looks), *_from_journal(records), *_from_server(requests)], facts


def _watch(environment: dict[str, str], cwd: str) -> list[tuple[int, str, float, int, int]]:
    """(turn, process, own MiB, descriptors, threads), once a second."""
    looks: list[tuple[int, str, float, int, int]] = []
    bounds = ["--max-agents", "8", "--max-spawns", "1000000", "-s", "danger-full-access"]
    with (Path(environment["SWARM_HOME"]) / "said").open("wb") as said:
        run = subprocess.Popen(
            [*SWARM, "run", "-p", _PROMPT, "--plain", *bounds],
            env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
        while run.poll() is None:
            time.sleep(1)
            looks += _look(run.pid, environment)
    if run.returncode:
        tail = Path(said.name).read_text()[-800:]
        raise RuntimeError(f"the run ended with {run.returncode}: {tail}")
    return looks


def _look(pid: int, environment: dict[str, str]) -> Iterator[tuple[int, str, float, int, int]]:
    try:
        turn = sum(1 for _ in (newest_run(environment) / "journal").iterdir()) - 2
    except OSError:
        return
    for one in process_tree(pid):
        try:
            name = "supervisor" if one == pid else _role_of(one)
            if name:
                folder = Path(f"/proc/{one}")
                descriptors = len(list((folder / "fd").iterdir()))
                threads = len(list((folder / "task").iterdir()))
                yield turn, name, _own_mib(folder), descriptors, threads
        except OSError:
            continue  # it begins or ends


def _role_of(pid: int) -> str:
    title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    if "launcher" in title:
        return ""
    found = {"swarm: gateway": "gateway", "swarm: fork-server": "fork-server",
             "swarm: /root [": "root agent"}  # fmt: skip
    return next((name for words, name in found.items() if title.startswith(words)), "")


def _own_mib(folder: Path) -> float:
    for line in (folder / "status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError("it has ended")


def _from_looks(looks: list[tuple[int, str, float, int, int]]) -> Iterator[SoakSeries]:
    """The root's memory holds its history, and the gateway's its requests: they may grow."""
    for name in _LONG_LIVED:
        mine = [look for look in looks if look[1] == name]
        if not mine:
            continue
        keeps_history = name in {"gateway", "root agent"}
        memory = [(turn, own) for turn, _, own, _, _ in mine]
        yield SoakSeries(f"{name}: own memory", "MiB", memory, None if keeps_history else 1.05, 1.0)
        yield SoakSeries(
            f"{name}: descriptors", "", [(one[0], one[3]) for one in mine], 1.0, _SPAWN_DESCRIPTORS
        )
        yield SoakSeries(f"{name}: threads", "", [(one[0], one[4]) for one in mine], 1.0)


def _from_journal(records: list[dict[str, Any]]) -> Iterator[SoakSeries]:
    turns: list[tuple[int, float]] = []
    commands: list[tuple[int, float]] = []
    starts: list[tuple[int, float]] = []
    for record in records:
        body = record["body"]
        match body["type"]:
            case "turn_completed" if record.get("agent") == "/root":
                turns.append((len(turns), body["duration_s"] * 1000))
            case "call_ended" if body["tool"] == "exec_command":
                commands.append((len(turns), body["duration_s"] * 1000))
            case "agent_spawned" if record.get("agent") != "/root":
                starts.append((len(turns), body.get("spawn_s", 0.0) * 1000))
            case _:
                pass
    yield SoakSeries("a turn of the root", "ms", turns, 2.0, 10.0)
    yield SoakSeries("its command", "ms", commands, 1.5, 10.0)
    yield SoakSeries("a birth, from its slot to its Hello", "ms", starts, 1.5, 10.0)


def _from_server(requests: list[dict[str, Any]]) -> Iterator[SoakSeries]:
    """From the answer that asks for an agent to that agent's first request."""
    root = [one for one in requests if one["kind"] == "root"]
    wanted = root[0::2]  # between two of them is the one that brings the outputs
    first = {one["name"]: one["began"] for one in requests if one["kind"] == "leaf"}
    spans = [
        (turn, (first[f"a{turn + 1}"] - one["answered"]) * 1000)
        for turn, one in enumerate(wanted)
        if f"a{turn + 1}" in first
    ]
    yield SoakSeries("spawn to first request", "ms", spans, 1.5, 10.0)
    sizes = [(turn, one["bytes"] / 1024) for turn, one in enumerate(wanted)]
    yield SoakSeries("request of the root", "KiB", sizes)
