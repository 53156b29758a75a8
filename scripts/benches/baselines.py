"""The floors: what the machine asks for the same without swarm. Each figure stands beside one.

Measured once a process, on the machine that measures the rest; a busy machine slows both.
"""

import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bench_harness import HERE, pss_bytes
from measurements import Row

_FORKED = [sys.executable, "-P", str(HERE / "fork_baseline.py")]
_BWRAP = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all",
          "--die-with-parent", "/bin/true"]  # fmt: skip


class BareFork(NamedTuple):
    """A bare fork with Trio and a ZeroMQ socket: fork to first mail, and its memory."""

    start_ms: float
    pss_mib: float


@cache
def bare_fork(children: int = 20) -> BareFork:
    """Medians over children that live side by side."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [*_FORKED, str(Path(folder) / "post"), str(children)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdin is not None
        starts = [float(word) for word in process.stdout.readline().split()]
        pids = [int(word) for word in process.stdout.readline().split()]
        sizes = [pss_bytes(pid) / 2**20 for pid in pids]
        process.stdin.close()
        process.wait(30)
    return BareFork(statistics.median(starts) * 1000, statistics.median(sizes))


@cache
def plain_command() -> float:
    """Milliseconds of a plain subprocess of `true`."""
    return _median_ms(["/bin/true"], 60)


@cache
def bwrapped_command() -> float:
    """The same inside a plain bwrap; without bwrap the plain one."""
    try:
        return _median_ms(_BWRAP, 30)
    except (OSError, subprocess.CalledProcessError):
        return plain_command()


def _median_ms(argv: list[str], rounds: int) -> float:
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(argv, check=True, capture_output=True)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


@cache
def interpreter_start() -> float:
    """Milliseconds of an interpreter that imports click and ends: the least of any command."""
    return _median_ms([sys.executable, "-P", "-c", "import click"], 15)


@cache
def imports_start() -> float:
    """Milliseconds until an interpreter has imported what no run can do without."""
    return _median_ms([sys.executable, "-P", "-c", "import trio, zmq, msgspec, httpcore"], 9)


@cache
def socket_round_trip_ms() -> float:
    """A mail there and back between two processes over a plain Unix socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        while packet := theirs.recv(4096):
            theirs.send(packet)
        os._exit(0)
    theirs.close()
    times: list[float] = []
    for _ in range(500):
        began = time.perf_counter()
        ours.send(b"x" * 200)
        select.select([ours], [], [])
        ours.recv(4096)
        times.append((time.perf_counter() - began) * 1000)
    ours.close()
    os.waitpid(pid, 0)
    return statistics.median(times)


_BASELINES: tuple[tuple[str, Callable[[], float]], ...] = (
    ("swarm --help", interpreter_start),
    ("start of swarm run", imports_start),
    ("one tool turn running `true`, without", plain_command),
    ("one tool turn running `true`, with", bwrapped_command),
    ("warm spawn", lambda: bare_fork().start_ms),
    ("memory of one of", lambda: bare_fork().pss_mib),
    ("mail,", socket_round_trip_ms),
)


def with_baseline(row: Row) -> Row:
    """The row with its floor, where it has one."""
    if row.floor is not None:
        return row
    for start, floor in _BASELINES:
        if row.what.startswith(start):
            return row._replace(floor=floor())
    return row
