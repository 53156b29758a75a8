"""What it costs that agents work on other machines: three nodes of a Ray cluster on this one.

The way between them is this machine's loopback, so a real link's time comes on top. The same run
with copies here is the comparison.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench_harness import SWARM, journal_of, newest_run, run_swarm, swarm_home
from copy_bench import time_plain_copy
from measurements import Row
from process_watch import process_tree

_NODES, _SPAWNS, _MAILS, _CROWD = 3, 32, 40, 200
_FILES, _LARGE_FILES, _PROJECT_BYTES, _FOLDERS = 50_000, 500, 500_000_000, 500
_LOOK_S = 15.0
_COPIES = ("-s", "workspace-write", "--merge", "leave", "--max-spawns", "100000")
_HERE, _THERE = ("--isolate=children",), ("--hosts", "lab")


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row."""
    with cluster(_NODES) as address, swarm_home("http://127.0.0.1:1/v1") as environment:
        table = f'\n[hosts.lab]\nray = "{address}"\nslots = 100\n'
        with Path(environment["SWARM_HOME"], "config.toml").open("a") as config:
            config.write(table)
        yield from spawns_and_mail(environment, 1 if quick else 5)
        for files in (_LARGE_FILES,) if quick else (_LARGE_FILES, _FILES):
            yield from base_of_a_project(environment, files)
        yield from crowd(environment, 20 if quick else _CROWD)


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """The address of a cluster of so many nodes."""
    from ray.cluster_utils import Cluster

    made: Any = Cluster()
    try:
        for _ in range(nodes):
            made.add_node(num_cpus=1, include_dashboard=False)
        yield made.address
    finally:
        made.shutdown()


def play(
    environment: dict[str, str], turns: Iterable[dict[str, Any]], *words: str, cwd: str = ""
) -> list[dict[str, Any]]:
    """The records of one scripted run."""
    with ExitStack() as stack:
        place = cwd or stack.enter_context(tempfile.TemporaryDirectory())
        script = Path(environment["SWARM_HOME"]) / "script.yaml"
        script.write_text(json.dumps({"turns": list(turns)}))
        wanted = ("run", "-p", "begin", "--provider", f"scripted:{script}", "--plain")
        ended = run_swarm(environment, *wanted, *_COPIES, *words, cwd=place, timeout_s=900)
        if ended.returncode:
            raise RuntimeError(f"the run ended with {ended.returncode}: {ended.stderr[-800:]}")
        return list(journal_of(environment))


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def spawn(name: str, **more: object) -> dict[str, object]:
    return call("spawn_agent", task_name=name, message="work", fork_turns="none", **more)


def team(names: Sequence[str], work: Sequence[dict[str, object]]) -> Iterator[dict[str, Any]]:
    """The root starts them in one go; each makes these calls, one after the other."""
    yield {"agent": "/root", "calls": [spawn("first")]}
    waits = {"for": "all", "timeout_ms": 600_000}
    yield {"agent": "/root", "calls": [call("wait_agent", targets=["first"], **waits)]}
    yield {"agent": "/root", "calls": [spawn(name) for name in names]}
    yield {"agent": "/root", "calls": [call("wait_agent", targets=list(names), **waits)]}
    yield {"agent": "/root", "text": "done", "repeat": "forever"}
    yield {"agent": "/root/first", "text": "done"}
    for name in names:
        for one in work:
            yield {"agent": f"/root/{name}", "calls": [one]}
        yield {"agent": f"/root/{name}", "text": "done"}


def spawns_and_mail(environment: dict[str, str], rounds: int) -> Iterator[Row]:
    """Starts of agents whose nodes have the base already, and requests to the team."""
    found: dict[str, dict[str, list[float]]] = {"here": {}, "there": {}}
    for _ in range(rounds):
        for place, words in (("here", _HERE), ("there", _THERE)):
            names = [f"a{number}" for number in range(_SPAWNS)]
            bounds = ("--max-agents", str(_SPAWNS + 2))
            records = play(environment, team(names, ()), *words, *bounds)
            found[place].setdefault("spawn", []).append(statistics.median(_starts(records)))
            mails = [call("list_agents")] * _MAILS
            records = play(environment, team(["a0"], mails), *words)
            times = [one["duration_s"] * 1000 for one in _ended(records, "list_agents")]
            found[place].setdefault("mail", []).append(statistics.median(times))
    here, there = found["here"], found["there"]
    yield Row.of("start of an agent in a copy, to its Hello, here", here["spawn"], None, "ms")
    yield Row.of("the same on another machine that has the base", there["spawn"], None, "ms")
    cost = statistics.median(there["spawn"]) - statistics.median(here["spawn"])
    yield Row("  what it adds, without the link's own time", cost, 15, "ms")
    yield Row.of("a request to the team and its reply, here", here["mail"], None, "ms")
    yield Row.of("the same from another machine", there["mail"], None, "ms")
    ratio = statistics.median(there["mail"]) / statistics.median(here["mail"])
    yield Row("  beside each other", ratio, 3, "x")


def _starts(records: list[dict[str, Any]]) -> list[float]:
    return [
        one["body"]["spawn_s"] * 1000 for one in records
        if one["body"]["type"] == "agent_spawned"
        and one["body"]["path"] not in {"/root", "/root/first"}
    ]  # fmt: skip


def _ended(records: list[dict[str, Any]], tool: str) -> list[dict[str, Any]]:
    bodies = (one["body"] for one in records)
    return [one for one in bodies if one["type"] == "call_ended" and one["tool"] == tool]


def base_of_a_project(environment: dict[str, str], files: int) -> Iterator[Row]:
    """The first agent on a machine, whose base is sent, after one here has made it."""
    size = _PROJECT_BYTES // files
    with tempfile.TemporaryDirectory() as cwd:
        for number in range(files):
            folder = Path(cwd) / f"part{number % _FOLDERS:03}"
            folder.mkdir(exist_ok=True)
            (folder / f"file{number:05}").write_bytes(bytes(range(250)) * (size // 250))
        turns: list[dict[str, Any]] = [
            {"agent": "/root", "calls": [call("exec_command", cmd="sleep 9")]},  # all have joined
            {"agent": "/root", "calls": [spawn("local", host="here")]},
            {"agent": "/root", "calls": [spawn("a")]},
            {"agent": "/root", "text": "done", "repeat": "forever"},
            {"agent": "/root/local", "text": "done"},
            {"agent": "/root/a", "text": "done"},
        ]
        records = play(environment, turns, *_THERE, cwd=cwd)
        plain_copy_s = time_plain_copy(cwd) / 1000
    took_s = _ended(records, "spawn_agent")[1]["duration_s"]
    megabytes = files * size / 1e6
    what = f"base of {files:,} files, {megabytes:.0f} MB, to a new machine"
    yield Row(what, took_s, None, "s", f"`cp -a` on this disk: {plain_copy_s:.1f} s")
    yield Row("  megabytes a second", megabytes / took_s, None, "MB/s", _link_speed(environment))


def _link_speed(environment: dict[str, str]) -> str:
    said = run_swarm(environment, "hosts", "probe", "--json", cwd="/").stdout.splitlines()
    rates = [json.loads(line).get("bytes_per_s", 0.0) for line in said]
    return f"the bare link: {max(rates, default=0.0) / 1e6:.0f}"


def crowd(environment: dict[str, str], agents: int) -> Iterator[Row]:
    """The supervisor's share of a processor while so many agents on three machines work."""
    work = [call("exec_command", cmd=f"sleep {second}.{index}; echo {index}")
            for index, second in enumerate((4, 5, 6, 7, 8, 9))]  # fmt: skip
    names = [f"a{number}" for number in range(agents)]
    with tempfile.TemporaryDirectory() as cwd:
        script = Path(environment["SWARM_HOME"]) / "script.yaml"
        script.write_text(json.dumps({"turns": list(team(names, work))}))
        words = ("run", "-p", "begin", "--provider", f"scripted:{script}", "--plain")
        bounds = ("--max-agents", str(agents + 2))
        run = subprocess.Popen(
            [*SWARM, *words, *_COPIES, *_THERE, *bounds], env=environment, cwd=cwd,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        shares = _busy_shares(run, environment, agents)
        if run.wait():
            raise RuntimeError(f"the run ended with {run.returncode}")
    what = f"supervisor with {agents} agents on {_NODES} machines, each starting a command in 7 s"
    yield Row(what, shares["supervisor"], 30, "%")
    yield Row("  the process that carries their mail", shares["driver"], None, "%")


def _busy_shares(
    run: "subprocess.Popen[bytes]", environment: dict[str, str], agents: int
) -> dict[str, float]:
    """Percent of a processor of both, for 15 seconds once all agents are there."""
    while run.poll() is None and _files_of_run(environment) < agents + 2:
        time.sleep(0.1)
    pids = {"supervisor": run.pid, "driver": _find_driver(run.pid)}
    before = {name: _spent_s(pid) for name, pid in pids.items()}
    time.sleep(_LOOK_S)
    return {name: (_spent_s(pid) - before[name]) / _LOOK_S * 100 for name, pid in pids.items()}


def _files_of_run(environment: dict[str, str]) -> int:
    """Agents that have a journal; the root and the run's own file count."""
    try:
        return len(list((newest_run(environment) / "journal").iterdir())) - 1
    except OSError:
        return 0


def _find_driver(root: int) -> int:
    for pid in process_tree(root):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"swarm: hosts"):
                return pid
        except OSError:
            continue
    return 0


def _spent_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / 100
