"""A look at all processes of a run while it goes on: memory, descriptors, sockets, threads.

Own pages (RssAnon) are what a process alone has changed or made: unlike its share of common pages
(PSS) they do not move when a neighbour ends, so only they can show a leak of one process.
"""

import statistics
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from rig import SWARM, newest_run, pss_bytes


class Look(NamedTuple):
    """The supervisor at one moment; `agents` had begun by then."""

    agents: int
    own_bytes: int
    descriptors: int
    sockets: int
    threads: int


class Growth(NamedTuple):
    """Of the supervisor, from the end of the warm-up to the end; medians of the looks there."""

    warm_agents: int
    warm_mib: float
    own_mib: float
    trend_mib: float
    descriptors: float
    sockets: float
    threads: float


class Watched:
    """All looks at one run."""

    def __init__(self) -> None:
        self.peak_pss = self.most_processes = self.samples = self.agents = 0
        self.looks: list[Look] = []

    def growth(self) -> Growth:
        """The warm-up is a tenth of the agents, 1,000 at least; then a median of ten looks."""
        warm_from = min(max(1_000, self.agents // 10), self.agents // 2)
        looks = [one for one in self.looks if one.agents >= warm_from]
        width = max(1, min(10, len(looks) // 3))
        first, last = looks[:width], looks[-width:]

        def grown(field: int) -> float:
            return median_of(last, field) - median_of(first, field)

        slope = statistics.linear_regression(
            [one.agents for one in looks], [one.own_bytes for one in looks]
        ).slope if len(looks) > 2 else 0.0  # fmt: skip
        return Growth(
            warm_agents=first[0].agents,
            warm_mib=median_of(first, 1) / 2**20,
            own_mib=grown(1) / 2**20,
            trend_mib=slope * 10_000 / 2**20,
            descriptors=grown(2),
            sockets=grown(3),
            threads=grown(4),
        )


def median_of(looks: list[Look], field: int) -> float:
    return statistics.median(one[field] for one in looks)


def watch_run(
    environment: dict[str, str], arguments: list[str], *, cwd: str, every_s: float
) -> Watched:
    """Run swarm to its end and look at it: all of its tree, or when slow at its supervisor."""
    watched = Watched()
    with (Path(environment["SWARM_HOME"]) / "said").open("wb") as said:
        run = subprocess.Popen(
            [*SWARM, *arguments], env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=said, stderr=said,
        )  # fmt: skip
        while run.poll() is None:
            if every_s < 0.5:
                _look_at_tree(run.pid, watched)
            else:
                _look_at_supervisor(run.pid, environment, watched)
            time.sleep(every_s)
    if run.returncode:
        tail = Path(said.name).read_text()[-800:]
        raise RuntimeError(f"the run ended with {run.returncode}: {tail}")
    watched.agents = _begun(environment)
    return watched


def _look_at_tree(pid: int, watched: Watched) -> None:
    total, processes = tree_pss(pid)
    watched.samples += 1
    if total > watched.peak_pss:
        watched.peak_pss, watched.most_processes = total, processes


def tree_pss(pid: int) -> tuple[int, int]:
    """Bytes of PSS of a process and all below it, and how many they are. Needs root: a supervisor
    may not be dumped.
    """
    tree = family(pid)
    total = 0
    for one in tree:
        try:
            total += pss_bytes(one)
        except OSError:
            continue  # it has just ended
    return total, len(tree)


def _look_at_supervisor(pid: int, environment: dict[str, str], watched: Watched) -> None:
    try:
        agents = _begun(environment)
        files = [_target(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        look = Look(
            agents=agents,
            own_bytes=_own_bytes(pid),
            descriptors=len(files),
            sockets=sum(target.startswith("socket:") for target in files),
            threads=len(list(Path(f"/proc/{pid}/task").iterdir())),
        )
    except OSError:
        return  # it begins or ends
    watched.looks.append(look)


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
    return sum(1 for _ in (newest_run(environment) / "journal").iterdir()) - 1


def family(pid: int) -> list[int]:
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
