"""What memories cost: with 10,000 stored runs a claim, a search, and the start of a run.

Runs with and without memories take turns, so that both see the machine at the same pace.
"""

import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench_harness import model_server, starts_in_turns, swarm_home
from measurements import Row

from swarm.supervisor.parts.memories.consolidation import Consolidation
from swarm.supervisor.parts.memories.memory_context import remember_path
from swarm.supervisor.parts.memories.memory_database import open_database
from swarm.supervisor.parts.memories.memory_facts import Output, make_fact
from swarm.supervisor.parts.memories.memory_jobs import Claim
from swarm.supervisor.parts.memories.memory_paths import MemoryPaths
from swarm.supervisor.parts.memories.memory_search import search_memories
from swarm.supervisor.parts.memories.memory_store import MemoryStore
from swarm.supervisor.runs.paths import find_user_paths

_RUNS, _PROJECTS, _FACTS_EACH = 10_000, 20, 2
_WORDS = (
    "parser", "lexer", "cache", "socket", "journal", "mailbox", "tests", "build", "lint", "release",
    "schema", "token",
)  # fmt: skip


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row."""
    runs, rounds = (1000, 5) if quick else (_RUNS, 41)
    with (
        model_server("answer") as server,
        swarm_home(server.url) as plain,
        swarm_home(server.url) as full,
        tempfile.TemporaryDirectory() as cwd,
    ):
        places = find_user_paths(full)
        paths = MemoryPaths(places)
        with closing(open_database(paths.database)) as base:
            store = MemoryStore(base)
            project = fill(store, runs, cwd)
            files = Consolidation(store, paths, summary_tokens=1500)
            chosen = store.select(project, most=256, used_since=0.0)
            store.remember_written(project, files.write_files(project, chosen))
            remember_path(paths.folder, cwd, project)
            yield Row.of(f"claim of a run beside {runs:,} stored ones", claims(store), 20, "ms")
            yield Row.of("the same search as recall_memories", searches(store, project), 10, "ms")
        (Path(full["SWARM_HOME"]) / "config.toml").open("a").write(
            "\n[memories]\nenabled = true\ngenerate_memories = false\n"
        )
        (without, with_them), sizes = starts_in_turns(server, (plain, full), cwd=cwd, rounds=rounds)
    if sizes[1] < sizes[0] + 1000:
        raise RuntimeError("the memories are not in the first request")
    yield Row.of("start of swarm run to its first request, without memories", without, None, "ms")
    yield Row.of("the same with memories", with_them, None, "ms")
    cost = statistics.median(with_them) - statistics.median(without)
    yield Row("  what they add", cost, 5, "ms")


def fill(store: MemoryStore, runs: int, cwd: str) -> str:
    """Store runs of several projects; returns the one of `cwd`."""
    names = [uuid.uuid5(uuid.NAMESPACE_URL, str(number)).hex[:16] for number in range(_PROJECTS)]
    now = time.time()
    for number in range(runs):
        project = names[number % _PROJECTS]
        words = [_WORDS[(number // _PROJECTS + step) % len(_WORDS)] for step in (1, 3, 5, 7)]
        output = Output(
            run_id=uuid.uuid4().hex, project=project, cwd=cwd, updated_at=now - number,
            raw_memory=" ".join(words), summary=f"# {' '.join(words)} {number}", slug=words[0],
            method="facts",
        )  # fmt: skip
        store.add_output(output, now=now)
        for one in range(_FACTS_EACH):
            text = f"The {words[one]} of part {number} works with the {words[3 - one]}."
            store.facts.add(make_fact(project, "finding", text, now=now), (output.run_id,), now=now)
    return names[0]


def claims(store: MemoryStore) -> list[float]:
    """Milliseconds of claims."""
    times = []
    for number in range(60):
        began = time.monotonic()
        taken = store.jobs.claim_extraction(f"run-{number}", 1.0, token="t", now=time.time())
        times.append((time.monotonic() - began) * 1000)
        if not isinstance(taken, Claim):
            raise RuntimeError(f"the claim was refused: {taken}")
    return times


def searches(store: MemoryStore, project: str) -> list[float]:
    """Milliseconds of searches."""
    times = []
    for number in range(60):
        query = f"{_WORDS[number % len(_WORDS)]} {_WORDS[(number + 5) % len(_WORDS)]}"
        began = time.monotonic()
        found, _ = search_memories(store, project, query, cwd="/", now=time.time())
        times.append((time.monotonic() - began) * 1000)
        if not found:
            raise RuntimeError(f"nothing was found for {query!r}")
    return times
