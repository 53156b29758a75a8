"""What copies of the project cost: at an agent's start, in memory, in a tool turn, at a merge.

Runs with and without copies take turns, so that both see the machine at the same pace. All commands
are in the sandbox.
"""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench_harness import run_swarm, swarm_home, team_server
from core_bench import turn_gaps
from measurements import Row
from team_bench import burst_spans, run_team

_FILES, _FOLDERS = 50_000, 500
_AGENTS = 32
_FILES_EACH = 20
_SANDBOXED = ("-s", "workspace-write", "--max-spawns", "1000")
_COPIED = (*_SANDBOXED, "--isolate=children", "--merge", "leave")
_ROLE = 'developer_instructions = "Work."\nname = "copied"\ndescription = "x"\nisolation = "copy"\n'


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row."""
    yield from start_cost(4 if quick else 15, 5_000 if quick else _FILES)
    yield from memory_cost(1 if quick else 5)
    turns, rounds = (40, 1) if quick else (120, 5)
    yield from turn_cost(turns, rounds)
    yield from merge_check(1 if quick else 5)


@contextmanager
def project(files: int) -> Iterator[str]:
    """A folder with so many files, made beside nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(files):
            place = Path(folder) / f"part{number % _FOLDERS:03}"
            place.mkdir(exist_ok=True)
            (place / f"file{number:05}.txt").write_text(f"{number}\n" * 20)
        yield folder


def start_cost(rounds: int, files: int) -> Iterator[Row]:
    """From the response that wants an agent to its first request; its first one makes the base."""
    with project(files) as cwd:
        shared, copied, first = [], [], []
        for _ in range(2):
            spans, _ = burst_spans(1, rounds, flags=_SANDBOXED, cwd=cwd)
            shared += [one for (one,) in spans[1:]]
            spans, _ = burst_spans(1, rounds, flags=_COPIED, cwd=cwd)
            first += spans[0]
            copied += [one for (one,) in spans[1:]]
        plain_copy_ms = time_plain_copy(cwd)
    yield Row.of(f"one spawn in a project of {files:,} files, shared", shared, None, "ms")
    yield Row.of("the same in a copy, its base there already", copied, None, "ms")
    cost = statistics.median(copied) - statistics.median(shared)
    yield Row("  what the copy adds", cost, 8, "ms")
    yield Row.of("the first one of a run, which makes the base", first, None, "ms")
    yield Row("  `cp -a` of that project, after it", plain_copy_ms, None, "ms")


def time_plain_copy(folder: str) -> float:
    """Milliseconds; file systems that have just removed many files make new ones slowly."""
    with tempfile.TemporaryDirectory() as place:
        began = time.monotonic()
        subprocess.run(["cp", "-a", folder, f"{place}/copy"], check=True)
        return (time.monotonic() - began) * 1000


def memory_cost(runs: int) -> Iterator[Row]:
    """The whole tree's PSS while 32 agents, with three commands each, live."""
    shared: list[float] = []
    copied: list[float] = []
    for _ in range(runs):
        for found, flags in ((shared, _SANDBOXED), (copied, _COPIED)):
            ended = run_team(
                "workers", _AGENTS, 3, max_agents=_AGENTS + 1, sample_s=0.02, flags=flags
            )
            found.append(ended.watched.peak_pss / 2**20)
    yield Row.of(f"peak memory of {_AGENTS} agents with sandbox, shared", shared, None, "MiB")
    yield Row.of("the same in copies", copied, None, "MiB")
    cost = (statistics.median(copied) - statistics.median(shared)) / _AGENTS
    yield Row("  what a copy adds to each", cost, 2, "MiB")


def turn_cost(turns: int, rounds: int) -> Iterator[Row]:
    """A tool turn of a root that shares the project, and of one whose role has a copy."""
    shared, copied = [], []
    role = {"agents/copied.toml": _ROLE}
    for _ in range(rounds):
        shared.append(statistics.median(turn_gaps(turns, [])[5:]))
        gaps = turn_gaps(turns, ["--role", "copied", "--merge", "leave"], home_files=role)
        copied.append(statistics.median(gaps[5:]))
    yield Row.of("one tool turn with sandbox, shared", shared, None, "ms")
    yield Row.of("the same in a copy", copied, None, "ms")
    ratio = statistics.median(copied) / statistics.median(shared)
    yield Row("  beside each other", ratio, 1.05, "x")


def merge_check(rounds: int) -> Iterator[Row]:
    """`swarm merge --check` of 32 agents that wrote 20 files each, the command as a whole."""
    with (
        team_server("writers", _AGENTS, _FILES_EACH) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        bounds = ("--max-agents", str(_AGENTS + 1))
        words = ("run", "-p", "bench:root <root> Begin.", "--plain", *_COPIED, *bounds)
        run_swarm(environment, *words, cwd=cwd).check_returncode()
        times = []
        for _ in range(rounds):
            began = time.monotonic()
            checked = run_swarm(environment, "merge", "--check", cwd=cwd)
            times.append(time.monotonic() - began)
            clean = checked.stdout.count(f"{_FILES_EACH} clean")
            if checked.returncode or clean != _AGENTS:
                raise RuntimeError(f"{clean} agents were clean: {checked.stderr[-800:]}")
    what = f"merge check of {_AGENTS} agents, {_FILES_EACH} files each"
    yield Row.of(what, times, 1, "s")
