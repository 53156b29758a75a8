"""What a person waits for where there is much: many runs, a large journal, a long run, many calls.

Everything is made by swarm: runs are played and then copied under new ids, the journal is written
by the run's own journal.
"""

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import trio
from bench_harness import model_server, newest_run, run_swarm, swarm_home
from chat_bench import idle_run
from core_bench import FULL, turn_gaps
from measurements import Row
from process_watch import process_tree

from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.events import CallEnded
from swarm.supervisor.journal.journal import open_journal
from swarm.supervisor.runs.paths import RunPaths

_RUNS, _JOURNAL_BYTES, _TURNS = 1_000, 300 << 20, 2_000
_OUTPUT = "x" * 10_000
_CALLS = 16


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row."""
    rounds = 3 if quick else 11
    yield from many_runs(50 if quick else _RUNS, rounds)
    yield from large_journal((20 << 20) if quick else _JOURNAL_BYTES, rounds)
    yield from long_run(200 if quick else _TURNS, rounds)
    yield from parallel_calls(1 if quick else 5)
    yield from idle_wakeups(5 if quick else 30)


@contextmanager
def one_run(*words: str, turns: int = 0) -> Iterator[tuple[dict[str, str], str]]:
    """A home with one run that has ended, and the folder it worked in."""
    with (
        model_server("tools", turns) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        run_swarm(environment, "run", "-p", "hello", "--plain", *words, cwd=cwd).check_returncode()
        yield environment, cwd


def timed(action: Callable[[], "subprocess.CompletedProcess[str]"], rounds: int) -> list[float]:
    """Milliseconds of each round but the first, which fills caches. It must succeed."""
    times = []
    for _ in range(rounds + 1):
        began = time.monotonic()
        action().check_returncode()
        times.append((time.monotonic() - began) * 1000)
    return times[1:]


def many_runs(runs: int, rounds: int) -> Iterator[Row]:
    with one_run() as (environment, cwd):
        first = newest_run(environment)
        for _ in range(runs - 1):
            copy_run(first)
        times = timed(partial(run_swarm, environment, "ps", cwd=cwd), rounds)
    yield Row.of(f"swarm ps with {runs:,} runs", times, 150, "ms")


def copy_run(first: Path) -> None:
    """The same run under an id of its own."""
    name = new_uuid7()
    shutil.copytree(first, first.with_name(name))
    about = first.with_name(name) / "run.json"
    kept = json.loads(about.read_text())
    about.write_text(json.dumps(kept | {"run_id": name}))


def large_journal(size: int, rounds: int) -> Iterator[Row]:
    with one_run(turns=1) as (environment, cwd):
        run = newest_run(environment)
        (agent,) = (one.stem for one in (run / "journal").glob("*.jsonl") if one.stem != "run")
        paths = RunPaths(folder=run, sockets=run / "s")
        trio.run(_fill_journal, paths, agent, size // len(_OUTPUT))
        written = sum(one.stat().st_size for one in (run / "journal").iterdir())
        mib = written >> 20
        for words in (
            ("show", run.name),
            ("show", run.name, "/root"),
            ("log", run.name),
        ):
            times = timed(partial(run_swarm, environment, *words, cwd=cwd), rounds)
            said = " ".join(one for one in words if one != run.name)
            yield Row.of(f"swarm {said}, a journal of {mib} MiB", times, 1_000, "ms")


async def _fill_journal(paths: RunPaths, agent: str, records: int) -> None:
    """Outputs of commands, as a run writes them."""
    async with open_journal(paths) as journal:
        for number in range(records):
            ended = CallEnded(
                turn_id="t", call_id=f"c{number}", tool="exec_command", status="completed",
                exit_code=0, output=_OUTPUT,
            )  # fmt: skip
            journal.write(ended, agent="/root", file=agent)
            if number % 200 == 0:
                await journal.flush()


def long_run(turns: int, rounds: int) -> Iterator[Row]:
    """From `swarm resume` to the first byte of its first request, of a run with so many turns."""
    with one_run(*FULL, turns=turns) as (environment, cwd):
        run = newest_run(environment)
        config = Path(environment["SWARM_HOME"]) / "config.toml"
        words = ("resume", run.name, "-p", "more", "--plain")
        times = []
        for _ in range(rounds):
            with model_server("answer") as server:
                text = config.read_text()
                old = next(line for line in text.splitlines() if line.startswith("base_url"))
                config.write_text(text.replace(old, f'base_url = "{server.url}"'))
                began = time.monotonic()
                run_swarm(environment, *words, cwd=cwd).check_returncode()
                times.append((server.seen()["requests"][0]["began"] - began) * 1000)
    yield Row.of(f"resume of a run with {turns:,} turns, to its first request", times, 300, "ms")


def parallel_calls(rounds: int) -> Iterator[Row]:
    """A turn whose response calls 16 commands, beside one with a single call."""
    one, many = [], []
    for _ in range(rounds):
        one.append(statistics.median(turn_gaps(40, [])[5:]))
        many.append(statistics.median(turn_gaps(40, [], mode="parallel")[5:]))
    yield Row.of(
        f"one tool turn with {_CALLS} calls in its response, with sandbox", many, None, "ms"
    )
    ratio = statistics.median(many) / statistics.median(one)
    yield Row("  beside one with a single call", ratio, 2, "x")


def idle_wakeups(span_s: float) -> Iterator[Row]:
    """How often a processor takes up a process of a run that waits for words, all of them."""
    with idle_run() as pid:
        processes = process_tree(pid)
        before = sum(map(_switches, processes))
        time.sleep(span_s)
        count = sum(map(_switches, processes)) - before
    what = f"wake-ups a second of an idle run, {len(processes)} processes"
    yield Row(what, count / span_s, None, "")


def _switches(pid: int) -> int:
    """Voluntary context switches of all threads of a process so far."""
    found = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        found += int(lines["voluntary_ctxt_switches"])
    return found
