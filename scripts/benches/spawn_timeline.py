"""Where the time and the pages of a spawn go, process by process.

The kernel says when a process has a processor (`perf record --switch-events`; Debian:
`linux-perf`). The agents' first requests are never answered.
"""

import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from measurements import Lane, Row, Timeline
from process_watch import process_tree
from resting_workers import FREE, resting_workers

_SIZES = (1, 32)
_QUIET_S, _LIMIT_S = 0.5, 60.0
_SWITCH = re.compile(
    r"\s(?P<pid>\d+)/(?P<tid>\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<at>[\d.]+): "
    r"PERF_RECORD_SWITCH_CPU_WIDE (?P<way>IN|OUT)"
)
_FAULTS = 7  # field of /proc/PID/stat behind the name
Spans = list[tuple[float, float]]  # milliseconds


class Burst(NamedTuple):
    """One burst of spawns, in milliseconds since the response that asked for it.

    `spans`: of each process the times when a processor ran it. `faults`: pages that it was given or
    copied, over its whole life.
    """

    first_requests: list[float]
    titles: dict[int, str]
    spans: dict[int, Spans]
    faults: dict[int, int]

    @property
    def end_ms(self) -> float:
        return max(self.first_requests)

    def spans_of(self, pid: int) -> Spans:
        """Those until the last first request."""
        end_ms = self.end_ms
        return [(a, min(b, end_ms)) for a, b in self.spans.get(pid, []) if a < end_ms]

    def spent(self, pid: int) -> float:
        """Milliseconds of a processor until the last first request."""
        return sum(b - a for a, b in self.spans_of(pid))


def measure(*, quick: bool) -> Iterator[Row | Timeline]:
    """What each kind of process costs, for one spawn and for many; and the timeline of both."""
    for size in _SIZES:
        bursts = [record_burst(size) for _ in range(1 if quick else 5)]
        bursts.sort(key=lambda one: one.end_ms)
        yield from _rows(size, bursts)
        yield timeline_of(size, bursts[len(bursts) // 2])


def _rows(size: int, bursts: list[Burst]) -> Iterator[Row]:
    last = [one.end_ms for one in bursts]
    yield Row.of(f"{size} spawns, watched by perf: the last first request", last, None, "ms")
    kinds = sorted({kind_of(title) for one in bursts for title in one.titles.values()})
    for kind in kinds:
        each = [_spent_by(one, kind) / size for one in bursts]
        yield Row.of(f"  processor time of {kind}, for each spawn", each, None, "ms")
    for kind in ("agents", "launchers"):
        faults = [
            statistics.median(one.faults[pid] for pid in _pids_of(one, kind)) for one in bursts
        ]
        yield Row.of(f"  page faults of one of the {kind}", faults, None, "")


def _pids_of(burst: Burst, kind: str) -> list[int]:
    return [pid for pid, title in burst.titles.items() if kind_of(title) == kind]


def _spent_by(burst: Burst, kind: str) -> float:
    return sum(burst.spent(pid) for pid in _pids_of(burst, kind))


def kind_of(title: str) -> str:
    """What a process is, from its title in `ps`."""
    name = title.removeprefix("swarm: ")
    if name.startswith("/root "):
        return "the root"
    if name.startswith("launcher of /root "):
        return "the root's launcher"
    if name.startswith("launcher of"):
        return "launchers"
    if name.startswith("/root/"):
        return "agents"
    for word in ("gateway", "fork-server", "spare"):
        if name.startswith(word):
            return f"the {word}"
    return "the model server" if "model_server" in title else "the supervisor"


def record_burst(agents: int) -> Burst:
    """Start `agents` in one go in a new run and wait until all have asked their model."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "switches"
        with watched_by_perf(record), resting_workers(agents, 0, FREE) as team:
            team.wait(_LIMIT_S)
            titles = {pid: title_of(pid) for pid in [*process_tree(team.run.pid), team.server.pid]}
            faults = {pid: _faults(pid) for pid in titles}
            requests = team.server.seen()["requests"]
        asked = min(one["answered"] for one in requests if one["kind"] == "root")
        first = [(one["began"] - asked) * 1000 for one in requests if one["kind"] == "leaf"]
        return Burst(first, titles, read_spans(record, asked), faults)


@contextmanager
def watched_by_perf(to: Path) -> Iterator[None]:
    """Write to a file which process has a processor when. Raises RuntimeError without perf."""
    if shutil.which("perf") is None:
        raise RuntimeError("perf is not on PATH: `apt-get install linux-perf` installs it")
    argv = ["perf", "record", "-q", "-o", str(to), "-a", "--switch-events", "-e", "dummy",
            "-k", "CLOCK_MONOTONIC"]  # fmt: skip
    perf = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        time.sleep(_QUIET_S)  # it has begun by then; else no span is found, which is an error
        yield
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait(_LIMIT_S)


def title_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def _faults(pid: int) -> int:
    """Minor and major page faults of the process so far; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0
    return int(fields[_FAULTS]) + int(fields[_FAULTS + 2])


def read_spans(record: Path, zero_s: float) -> dict[int, Spans]:
    """When each process had a processor, in milliseconds from `zero_s` on."""
    argv = ["perf", "script", "-i", str(record), "--show-switch-events",
            "-F", "comm,pid,tid,cpu,time,event"]  # fmt: skip
    said = subprocess.run(argv, capture_output=True, check=True).stdout.decode(errors="replace")
    began: dict[str, tuple[int, float]] = {}  # by processor
    spans: dict[int, Spans] = {}
    for found in _SWITCH.finditer(said):
        at = (float(found["at"]) - zero_s) * 1000
        if found["way"] == "IN":
            began[found["cpu"]] = int(found["pid"]), at
            continue
        pid, since = began.pop(found["cpu"], (0, 0.0))
        if pid == int(found["pid"]) and pid and at > 0:
            spans.setdefault(pid, []).append((max(since, 0.0), at))
    if not spans:
        raise RuntimeError("perf saw no process: it may not watch the whole machine here")
    return spans


def timeline_of(size: int, burst: Burst) -> Timeline:
    """A lane for each process, in the order in which they first ran."""
    found = {pid: spans for pid in burst.titles if (spans := burst.spans_of(pid))}
    lanes = [
        Lane(kind_of(burst.titles[pid]), tuple(found[pid]))
        for pid in sorted(found, key=lambda pid: found[pid][0])
    ]
    return Timeline(f"spawn_{size}", tuple(lanes), tuple(sorted(burst.first_requests)))
