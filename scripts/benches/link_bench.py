"""What agents on another machine cost over a real link: one machine in a network of its own.

Two links: one of 1 ms there and back, for starts and mail; one of 1 Gbit/s, for a project that goes
to a new machine, with that machine's files in memory, since a disk may be slower than the link.
Needs root, `ip` and `tc`.
"""

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "ray_net"))  # scripts, not packages
sys.path.insert(0, str(Path(__file__).parent))

import hosts_bench
from bench_harness import swarm_home
from measurements import Row
from ray_testbed import ADDRESS, Machine, enter_namespaces, open_cluster, run

_DELAY_MS, _RATE, _LINK_BYTES_S = 0.5, "1gbit", 119e6  # what TCP gets of 1 Gbit/s
_FILES, _PROJECT_MB = (500, 50_000), 500
_ECHO = """
import socket
listener = socket.create_server(("0.0.0.0", 5555))
peer, _ = listener.accept()
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while data := peer.recv(100):
    peer.sendall(data)
"""


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row. Each link is made in a process of its own, which enters namespaces."""
    for link in ("delay", "rate"):
        words = [sys.executable, "-P", __file__, link, *["quick"] * quick]
        said = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
        for line in said.splitlines():
            yield Row(*json.loads(line))


@contextmanager
def _machine(*, in_memory: bool) -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="link-", dir="/var/tmp") as folder:
        with open_cluster(Path(folder), 1) as (machine,):
            if in_memory:
                run("mount", "-t", "tmpfs", "-o", "size=3g", "tmpfs", str(machine.home))
            yield machine
        if in_memory:
            run("umount", "-l", str(machine.home))


@contextmanager
def _home() -> Iterator[dict[str, str]]:
    with swarm_home("http://127.0.0.1:1/v1") as environment:
        table = f'\n[hosts.lab]\nray = "{ADDRESS}"\nslots = 100\nlabels = {{side = "away"}}\n'
        with Path(environment["SWARM_HOME"], "config.toml").open("a") as config:
            config.write(table)
        yield environment


def _delayed(rounds: int) -> Iterator[Row]:
    with _machine(in_memory=False) as machine, _home() as environment:
        machine.slow_down(_DELAY_MS, 0.0)
        link_ms = _round_trip_ms(machine)
        machine.join()
        rows = [*hosts_bench.spawns_and_mail(environment, rounds)]
    here, there, cost, mail_here, mail_there, _ = rows
    at = f"at a link of {link_ms:.1f} ms there and back"
    yield from (here, there)
    yield Row(f"  what it adds, {at}", cost.value, 15, "ms")
    yield from (mail_here, mail_there)
    ratio = (mail_there.value - link_ms) / mail_here.value
    yield Row(f"  without the link's own time beside the first one, {at}", ratio, 3, "x")


def _round_trip_ms(machine: Machine) -> float:
    times: list[float] = []
    with machine.program(sys.executable, "-c", _ECHO):
        while True:
            try:
                peer = socket.create_connection((machine.address, 5555), timeout=5)
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(200):
                began = time.perf_counter()
                peer.sendall(b"x")
                peer.recv(1)
                times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _limited(files: tuple[int, ...]) -> Iterator[Row]:
    with _machine(in_memory=True) as machine, _home() as environment:
        shape = ("rate", _RATE, "burst", "2mb", "latency", "100ms")
        run("tc", "qdisc", "add", "dev", f"v{machine.number}", "root", "tbf", *shape)
        machine.join()
        for count in files:
            took, _ = hosts_bench.base_of_a_project(environment, count)
            link_s = _PROJECT_MB * 1e6 / _LINK_BYTES_S
            yield took
            what = f"  beside what {_RATE} takes for {_PROJECT_MB} MB"
            yield Row(what, took.value / link_s, 1.25, "x")


def main() -> None:
    enter_namespaces()
    quick = "quick" in sys.argv
    rows = _delayed(1 if quick else 5) if sys.argv[1] == "delay" else _limited(_FILES[: 2 - quick])
    for row in rows:
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
