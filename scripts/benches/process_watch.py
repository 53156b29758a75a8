"""A look at all processes of a run while it goes on: memory, descriptors, sockets, threads.

Own pages (RssAnon) are what a process alone has changed or made: unlike its share of common pages
(PSS) they do not move when a neighbour ends, so only they can show a leak of one process.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from bench_harness import SWARM, cpu_seconds, memory_bytes, newest_run

_SETTLED_WITHIN_S = 5.0
_ASK_S = 30.0


class ProcessSample(NamedTuple):
    """The supervisor at one moment; `agents` had begun by then."""

    agents: int
    own_bytes: int
    descriptors: int
    sockets: int
    threads: int


class Growth(NamedTuple):
    """Of the supervisor, from the end of the warm-up to the end; medians of the looks there."""

    looks: int
    warm_agents: int
    warm_mib: float
    own_mib: float
    trend_mib: float
    descriptors: float
    sockets: float
    threads: float


class IdlePoint:
    """The moment of a look: so many agents live, no other is being started, and none is ending.

    An agent's process holds descriptors of the supervisor, and its start holds more. So that looks
    can be compared, the model server (at `url`) leaves `leaves` agents without an answer, and the
    journal tells when all others but `beside` have ended.
    """

    def __init__(self, url: str, leaves: int, beside: int) -> None:
        self._url, self._leaves, self._agents = url, leaves, leaves + beside
        self._read_bytes = self._live = 0
        self.held_s = 0.0  # of the run, in all looks

    @contextmanager
    def hold(self, environment: dict[str, str]) -> Iterator[bool]:
        """The run stands still inside; False: it begins or ends, and there is nothing to see."""
        is_held = self._pause(self._leaves)
        began = time.monotonic()
        try:
            yield is_held and self._is_settled(environment)
        finally:
            self._pause(0)
            self.held_s += time.monotonic() - began

    def _pause(self, leaves: int) -> bool:
        """True if it stands still now."""
        order = json.dumps({"pause": leaves}).encode()
        with urlopen(self._url, data=order, timeout=_ASK_S) as answer:
            return json.loads(answer.read()) is True

    def _is_settled(self, environment: dict[str, str]) -> bool:
        """What has ended is journaled in its own time, behind the word that its work is done."""
        journal = newest_run(environment) / "journal" / "run.jsonl"
        until = time.monotonic() + _SETTLED_WITHIN_S
        while time.monotonic() < until:
            with journal.open("rb") as lines:
                lines.seek(self._read_bytes)
                new, whole, _ = lines.read().rpartition(b"\n")
            self._read_bytes += len(new + whole)
            self._live += new.count(b'"body":{"type":"agent_spawned"')
            self._live -= new.count(b'"body":{"type":"process_ended"')
            if self._live == self._agents:
                return True
        return False


class RunSamples:
    """All looks at one run."""

    def __init__(self) -> None:
        self.peak_pss = self.most_processes = self.tree_samples = self.agents = 0
        self.held_s = 0.0  # the run stood still for so long, to be looked at
        self.process_samples: list[ProcessSample] = []

    def growth(self) -> Growth:
        """The warm-up is a tenth of the agents, 1,000 at least; then a median of ten looks."""
        warm_from = min(max(1_000, self.agents // 10), self.agents // 2)
        looks = [one for one in self.process_samples if one.agents >= warm_from]
        width = max(1, min(10, len(looks) // 3))
        first, last = looks[:width], looks[-width:]

        def grown(field: int) -> float:
            return median_of(last, field) - median_of(first, field)

        slope = statistics.linear_regression(
            [one.agents for one in looks], [one.own_bytes for one in looks]
        ).slope if len(looks) > 2 else 0.0  # fmt: skip
        return Growth(
            looks=len(looks),
            warm_agents=first[0].agents,
            warm_mib=median_of(first, 1) / 2**20,
            own_mib=grown(1) / 2**20,
            trend_mib=slope * 10_000 / 2**20,
            descriptors=grown(2),
            sockets=grown(3),
            threads=grown(4),
        )


def median_of(looks: list[ProcessSample], field: int) -> float:
    return statistics.median(one[field] for one in looks)


def watch_run(
    environment: dict[str, str],
    arguments: list[str],
    *,
    cwd: str,
    every_s: float,
    rest: IdlePoint | None = None,
) -> RunSamples:
    """Run swarm to its end and look at it: at all of its tree, or at its supervisor at rest."""
    watched = RunSamples()
    with (Path(environment["SWARM_HOME"]) / "said").open("wb") as said:
        run = subprocess.Popen(
            [*SWARM, *arguments], env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=said, stderr=said,
        )  # fmt: skip
        while run.poll() is None:
            if rest is None:
                _sample_tree(run.pid, watched)
            else:
                with rest.hold(environment) as is_held:
                    if is_held:
                        _sample_supervisor(run.pid, environment, watched)
            time.sleep(every_s)
    if run.returncode:
        tail = Path(said.name).read_text()[-800:]
        raise RuntimeError(f"the run ended with {run.returncode}: {tail}")
    watched.agents = _begun(environment)
    watched.held_s = 0.0 if rest is None else rest.held_s
    return watched


def _sample_tree(pid: int, watched: RunSamples) -> None:
    total, processes = tree_pss(pid)
    watched.tree_samples += 1
    if total > watched.peak_pss:
        watched.peak_pss, watched.most_processes = total, processes


def tree_pss(pid: int) -> tuple[int, int]:
    """Bytes of PSS of a process and all below it, and how many they are. Needs root: a supervisor
    may not be dumped.
    """
    return tree_memory(pid)[0], len(process_tree(pid))


def tree_memory(pid: int) -> tuple[int, int]:
    """Bytes of PSS and of USS of a process and all below it."""
    pss = uss = 0
    for one in process_tree(pid):
        with suppress(OSError):  # it has just ended
            memory = memory_bytes(one)
            pss += memory["Pss"]
            uss += memory["Private_Clean"] + memory["Private_Dirty"]
    return pss, uss


def tree_cpu_seconds(pid: int) -> float:
    """Processor time of a process and all below it, with that of children that have ended."""
    total = 0.0
    for one in process_tree(pid):
        with suppress(OSError):
            total += cpu_seconds(one, with_ended_children=True)
    return total


def journal_files(run: Path) -> list[Path]:
    """The journal's files of a run."""
    return list((run / "journal").iterdir())


def _sample_supervisor(pid: int, environment: dict[str, str], watched: RunSamples) -> None:
    try:
        agents = _begun(environment)
        files = [_target(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        look = ProcessSample(
            agents=agents,
            own_bytes=_own_bytes(pid),
            descriptors=len(files),
            sockets=sum(target.startswith("socket:") for target in files),
            threads=len(list(Path(f"/proc/{pid}/task").iterdir())),
        )
    except OSError:
        return  # it begins or ends
    watched.process_samples.append(look)


def _own_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("it has ended")


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _begun(environment: dict[str, str]) -> int:
    """Agents that have a file in the journal."""
    return len(journal_files(newest_run(environment))) - 1


def process_tree(pid: int) -> list[int]:
    """The process and all that descends from it."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found
